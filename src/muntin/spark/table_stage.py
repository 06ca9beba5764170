"""The window stage of a table on Spark: all panes of a shard at once. Results leave it as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from muntin.engine.batch import Arrived
from muntin.engine.emitted import Emitted, Results
from muntin.engine.features import Batches, Finish, Task
from muntin.engine.map_stage import PackedPanes
from muntin.engine.native_panes import NativePanes
from muntin.engine.plan import Plan
from muntin.engine.stages import table_run
from muntin.spark.memory import begin_task
from muntin.spark.pane_stage import this_task
from muntin.spark.window_stage import MOST_ROWS, StagedRow, finished, staged

_STAGED = pa.schema([("task", pa.int32()), ("payload", pa.binary()), ("metrics", pa.list_(pa.int64()))])
"""`STAGED`. A table has no progress, so nobody reads its metrics."""


def shard_of_table(plan: Plan, query: str, finish: Finish | None = None) -> Batches:
    """The window stage of a table: all packed panes of a shard."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        arrived = [PackedPanes(**row) for batch in batches for row in batch.to_pylist()]
        yield from _emitted(plan, arrived[0].shard, this_task(plan, query), arrived, finish)

    return run


def shard_of_panes(plan: Plan, panes: NativePanes, query: str, finish: Finish | None = None) -> Batches:
    """The window stage of a table whose panes Spark made: all panes of some keys."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        task = this_task(plan, query)
        shard = plan.shards[task.number % len(plan.shards)]
        rows = list(batches)
        if rows:
            yield from _emitted(plan, shard, task, panes.arrived(plan, pa.Table.from_batches(rows)), finish)

    return run


def _emitted(
    plan: Plan, shard: int, task: Task, arrived: list[PackedPanes] | Arrived, finish: Finish | None
) -> Iterator[pa.RecordBatch]:
    """What a shard emits: its results, or `STAGED` rows where other steps follow."""
    shard_plan = plan.of_shard(shard)
    emitted, metrics = table_run(shard_plan, arrived, shard, task)
    emitted = finished(finish, emitted)
    if plan.steps:
        yield from map(_batch, staged(shard_plan, shard, emitted, metrics))
    else:
        yield from _results(emitted)


def _results(emitted: Iterable[Emitted]) -> Iterator[pa.RecordBatch]:
    """Results in batches that Spark reads one by one."""
    for results in emitted:
        assert isinstance(results, Results)
        for begin in range(0, results.rows.num_rows, MOST_ROWS):
            yield results.rows.slice(begin, MOST_ROWS)


def _batch(row: StagedRow) -> pa.RecordBatch:
    return pa.record_batch([pa.array([getattr(row, field.name)], field.type) for field in _STAGED], schema=_STAGED)
