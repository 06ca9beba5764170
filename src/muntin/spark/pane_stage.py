"""The pane stage on Spark: a map over Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import types as T

from muntin.plan import Plan
from muntin.stages.pane_stage import PackedPanes, PaneStage

PACKED = T.StructType(
    [
        T.StructField("shard", T.IntegerType()),
        T.StructField("rows", T.LongType()),
        T.StructField("bad_rows", T.LongType()),
        T.StructField("outside_rows", T.LongType()),
        T.StructField("panes", T.BinaryType()),
        T.StructField("late_candidates", T.BinaryType()),
        T.StructField("latest", T.LongType()),
        T.StructField("latest_time", T.TimestampType()),
    ]
)
"""`PackedPanes`, column by column."""

_ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("rows", pa.int64()),
        ("bad_rows", pa.int64()),
        ("outside_rows", pa.int64()),
        ("panes", pa.binary()),
        ("late_candidates", pa.binary()),
        ("latest", pa.int64()),
        ("latest_time", pa.timestamp("us", tz="UTC")),
    ]
)


def packed_panes(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in PaneStage(plan).run(batches):
            yield _row(each)

    return run


def _row(each: PackedPanes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([getattr(each, field.name)], field.type) for field in _ARROW], schema=_ARROW)
