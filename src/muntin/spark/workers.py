"""Worker models on Spark: who computes window jobs, and who puts results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from muntin.features.workers.collector import in_window_order
from muntin.features.workers.jobs import done
from muntin.plan import Plan
from muntin.spark.memory import keep_freed_memory
from muntin.spark.pane_stage import host_load
from muntin.spark.window_stage import MOST_ROWS, READY, packed_rows, unpacked

Map: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

PAYLOAD = T.StructType([T.StructField("payload", T.BinaryType())])


def spread(plan: Plan, jobs: DataFrame) -> DataFrame:
    """Window jobs over more tasks than there are cores: whoever is free takes the next one.

    Ids of tasks are chosen as those of shards are, so that each has a partition of its own.
    """
    return jobs.select("task", "payload").repartition(plan.workers.tasks, "task")


def computed(plan: Plan, query: str) -> Map:
    """The agnostic worker: the results of jobs, and those that are ready."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_freed_memory()
        for batch in batches:
            for task, payload in zip(batch.column("task").to_pylist(), batch.column("payload"), strict=True):
                if task == READY:
                    yield from pa.ipc.open_stream(payload.as_buffer())
                else:
                    yield from done(plan, payload.as_buffer())
        load = host_load(plan, query)
        if load is not None:
            load.done()

    return run


def packed(results: Map) -> Map:
    """The same, for one more shuffle."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in results(batches):
            yield pa.record_batch([pa.array(packed_rows(batch), pa.binary())], names=PAYLOAD.names)

    return run


def ordered(plan: Plan) -> Map:
    """The collector: the results of a batch, in one order; they have to be in one partition."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in in_window_order(plan, unpacked(plan.result_schema)(batches)):
            for begin in range(0, batch.num_rows, MOST_ROWS):
                yield batch.slice(begin, MOST_ROWS)

    return run
