"""The pane stage on Spark: a map over Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as T

from muntin.engine.features import KeptAtSource, Task
from muntin.engine.map_stage import PackedPanes
from muntin.engine.plan import Plan
from muntin.engine.stages import pane_stage
from muntin.spark.local_files import STREAM
from muntin.spark.memory import begin_task
from muntin.spark.shards import of_this_stream

PACKED = T.StructType(
    [
        T.StructField("shard", T.IntegerType()),
        T.StructField("rows", T.LongType()),
        T.StructField("invalid_rows", T.LongType()),
        T.StructField("outside_rows", T.LongType()),
        T.StructField("panes", T.BinaryType()),
        T.StructField("late_candidates", T.BinaryType()),
        T.StructField("latest", T.LongType()),
        T.StructField("notes", T.BinaryType()),
        T.StructField("ahead_rows", T.LongType()),
        T.StructField("ahead", T.BinaryType()),
        T.StructField("skipped_files", T.LongType()),
        T.StructField("zone", T.StringType()),
        T.StructField("input", T.IntegerType()),
        T.StructField("latest_time", T.TimestampType()),
    ]
)
"""`PackedPanes`, column by column."""

_ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("rows", pa.int64()),
        ("invalid_rows", pa.int64()),
        ("outside_rows", pa.int64()),
        ("panes", pa.binary()),
        ("late_candidates", pa.binary()),
        ("latest", pa.int64()),
        ("notes", pa.binary()),
        ("ahead_rows", pa.int64()),
        ("ahead", pa.binary()),
        ("skipped_files", pa.int64()),
        ("zone", pa.string()),
        ("input", pa.int32()),
        ("latest_time", pa.timestamp("us", tz="UTC")),
    ]
)


def packed_panes(
    plan: Plan, query: str, kept: KeptAtSource | None = None, number: int = 0
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The stage of a task that reads the input of this number.

    It sheds rows first, if nothing has shed them before, as where it reads files itself.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        running, task = of_this_stream(plan), this_task(plan, query)
        if kept is not None:
            from muntin.features.shedding.drawn import drawn  # a feature: other queries do not import it

            batches = drawn(batches, kept, task)
        for panes in pane_stage(running, task).run(batches):
            yield packed_row(replace(panes, input=number) if number else panes)

    return run


def skipped_files(plan: Plan, count: int) -> pa.RecordBatch:
    """What a task reports of files that it could not read."""
    return packed_row(PackedPanes(of_this_stream(plan).shards[0], 0, 0, 0, None, None, skipped_files=count))


def this_task(plan: Plan, query: str) -> Task:
    """The running Spark task."""
    context = TaskContext.get()
    if context is None:
        return Task(query, host=plan.host)
    batch, stream = (context.getLocalProperty(name) for name in (_BATCH, STREAM))
    return Task(query, context.partitionId(), None if batch is None else int(batch), plan.host, stream)


_BATCH = "streaming.sql.batchId"
"""The local property with the number of the batch, in every task of a stream."""


def packed_row(panes: PackedPanes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([getattr(panes, field.name)], field.type) for field in _ARROW], schema=_ARROW)
