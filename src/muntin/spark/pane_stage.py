"""The pane stage on Spark: a map over Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as T

from muntin.engine.map_stage import NO_TIME, PackedPanes, PaneStage
from muntin.features.shedding.load import HostLoad
from muntin.features.shedding.shedder import Shedder
from muntin.plan import Plan
from muntin.spark.memory import keep_freed_memory

PACKED = T.StructType(
    [
        T.StructField("shard", T.IntegerType()),
        T.StructField("rows", T.LongType()),
        T.StructField("bad_rows", T.LongType()),
        T.StructField("outside_rows", T.LongType()),
        T.StructField("panes", T.BinaryType()),
        T.StructField("late_candidates", T.BinaryType()),
        T.StructField("latest", T.LongType()),
        T.StructField("shed_rows", T.LongType()),
        T.StructField("shed_rate", T.LongType()),
        T.StructField("load", T.BinaryType()),
        T.StructField("ahead_rows", T.LongType()),
        T.StructField("ahead", T.BinaryType()),
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
        ("shed_rows", pa.int64()),
        ("shed_rate", pa.int64()),
        ("load", pa.binary()),
        ("ahead_rows", pa.int64()),
        ("ahead", pa.binary()),
        ("latest_time", pa.timestamp("us", tz="UTC")),
    ]
)


def packed_panes(plan: Plan, query: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_freed_memory()
        load = host_load(plan, query)
        told = None if load is None else load.told()
        latest, rows = NO_TIME, 0
        for each in PaneStage(plan, _shedder(plan, load)).run(batches):
            latest = max(latest, each.latest)
            rows += each.rows
            yield _row(replace(each, load=told))
        if load is not None:
            load.done(None if latest == NO_TIME else latest, rows)

    return run


def host_load(plan: Plan, query: str) -> HostLoad | None:
    """The notes of this host on the batch that runs, if the query follows a latency."""
    if plan.shedding is None or plan.shedding.target_latency is None:
        return None
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty(_BATCH)
    return None if batch is None else HostLoad(query, int(batch), plan.host)


_BATCH = "streaming.sql.batchId"
"""What Spark tells every task of a stream: the number of its batch."""


def _shedder(plan: Plan, load: HostLoad | None) -> Shedder | None:
    policy, context = plan.shedding, TaskContext.get()
    if policy is None:
        return None
    rate = None if load is None or policy.target_latency is None else load.rate(policy.target_latency / 1e6)
    return Shedder(policy, 0 if context is None else context.partitionId(), rate)


def _row(each: PackedPanes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([getattr(each, field.name)], field.type) for field in _ARROW], schema=_ARROW)
