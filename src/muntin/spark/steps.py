"""The steps after the shards: spread jobs over tasks, and collect the results of all shards in one task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from muntin.engine.features import Batches, Collect
from muntin.engine.plan import Plan
from muntin.spark.memory import begin_task
from muntin.spark.pane_stage import this_task
from muntin.spark.window_stage import MOST_ROWS, READY, packed_rows, unpacked, without_padding

PAYLOAD = T.StructType([T.StructField("payload", T.BinaryType())])


def spread(jobs: DataFrame, tasks: int) -> DataFrame:
    """Spread jobs over more tasks than there are cores; a free core takes the next one.

    Task ids are chosen as those of shards, so that each has its own partition.
    """
    return jobs.select("task", "payload").repartition(tasks, "task")


def computed(plan: Plan, query: str) -> Batches:
    """Compute jobs, and pass results on."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for batch in batches:
            batch = without_padding(batch)
            for task, payload in zip(batch.column("task").to_pylist(), batch.column("payload"), strict=True):
                if task == READY:
                    yield from pa.ipc.open_stream(payload.as_buffer())
                else:
                    yield from plan.job_results(payload.as_buffer())
        for feature in plan.features:
            feature.job_done(plan, this_task(plan, query))

    return run


def packed(results: Batches) -> Batches:
    """Pack the results for another shuffle."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in results(batches):
            yield pa.record_batch([pa.array(packed_rows(batch), pa.binary())], names=PAYLOAD.names)

    return run


def collected(steps: Sequence[Collect]) -> Batches:
    """Run the steps over the results of all shards, which must be in one partition."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = unpacked(batches)
        for step in steps:
            results = step.run(results)
        for batch in results:
            for begin in range(0, batch.num_rows, MOST_ROWS):
                yield batch.slice(begin, MOST_ROWS)

    return run
