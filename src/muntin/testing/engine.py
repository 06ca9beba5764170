"""A stream without Spark: the stages of the query in this process, with the watermark that Spark would have."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine.features import Collect, Task
from muntin.engine.map_stage import AHEAD, DRAIN, MARKS, NO_TIME, TICK, PackedPanes
from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.engine.stages import pane_stage, stream_store, window_stage
from muntin.engine.state import MemoryState
from muntin.engine.store import HotCache
from muntin.errors import MuntinError
from muntin.features.workers.jobs import computed
from muntin.query import Query
from muntin.testing.rows import ON_SPARK, Rows
from muntin.testing.step import Row, Step, split

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)


class OnEngine:
    """The state of the shards, in memory."""

    def __init__(self, schema: pa.Schema, shards: int) -> None:
        self._schema = schema
        self._shards = shards
        self._states: dict[int, MemoryState] = {}
        self._watermark = 0
        """In milliseconds, as Spark keeps it."""
        self._batch = 0
        self._clock = self._ahead = 0
        """The clock of the last batch, and how far it is ahead of the real one, in milliseconds."""

    def start(self, build: Callable[[Any], Query]) -> None:
        """Start the query, or start it again with its state and no memory of anything else."""
        query = build(Rows({field.name: field.type for field in self._schema}))
        query.check_complete()
        query = query.resolved(lambda: self._shards)
        if query.kept_at_source is not None:
            raise MuntinError(f"shed(at='source') drops rows in Spark's plan. {ON_SPARK}")
        requested = (option.partitions(True, self._shards) for option in query.options)
        _, shards = next((numbers for numbers in requested if numbers is not None), (self._shards, self._shards))
        self._query, self._plan, self._cache = query, query.plan(range(shards)), HotCache(capacity=shards)
        for shard in self._plan.shards:
            self._states.setdefault(shard, MemoryState())

    def stop(self) -> None: ...

    @property
    def query(self) -> Query:
        return self._query

    def batch(self, rows: pa.Table) -> Step:
        found, latest, metrics = self._run(rows)
        delay = self._query.watermark or 0
        if latest > NO_TIME and latest // 1000 - delay // 1000 > self._watermark:
            self._watermark = latest // 1000 - delay // 1000
            more, _, last = self._run(None)
            found, metrics = found + more, self._both(metrics, last)
        return self._step(found, metrics)

    def move(self, watermark: datetime) -> Step:
        self._watermark = max(self._watermark, (watermark - EPOCH) // MILLISECOND)
        found, _, metrics = self._run(None)
        return self._step(found, metrics)

    def idle(self, length: int) -> Step:
        self._ahead = max(self._clock + length // 1000 - _now(), 0)
        return self._without_rows(TICK, self._clock + length // 1000)

    def drain(self) -> Step:
        return self._without_rows(DRAIN)

    def _without_rows(self, reason: int, clock: int | None = None) -> Step:
        """A batch in which the source has nothing to give."""
        sent = [PackedPanes(shard, 0, 0, 0, None, None, input=reason) for shard in self._plan.shards]
        found, _, metrics = self._run(None, sent, clock)
        return self._step(found, metrics)

    def _run(
        self, rows: pa.Table | None, without: Sequence[PackedPanes] = (), clock: int | None = None
    ) -> tuple[list[Row], int, Counter[str]]:
        """One batch of all shards: its rows of results, the time that the watermark follows, and the metrics."""
        clock = self._clock = max(_now() + self._ahead, self._clock) if clock is None else clock
        task = Task(batch=self._batch, clock=clock)
        self._batch += 1
        sent = list(without) if rows is None else list(pane_stage(self._plan, task).run(self._read(rows, clock)))
        metrics: Counter[str] = Counter()
        emitted: list[pa.RecordBatch] = []
        for shard in self._plan.shards:
            emitted += self._run_shard(shard, [panes for panes in sent if panes.shard == shard], task, metrics)
        for step in self._plan.steps:
            if isinstance(step, Collect):
                emitted = list(step.run(iter(emitted)))
        latest = max((panes.latest for panes in sent), default=NO_TIME)
        return [row for batch in emitted for row in self._rows(batch)], latest, metrics

    def _run_shard(
        self, number: int, sent: Sequence[PackedPanes], task: Task, metrics: Counter[str]
    ) -> list[pa.RecordBatch]:
        plan = self._plan.of_shard(number)
        store = stream_store(plan, "query", number, self._states[number], self._cache)
        shard = window_stage(plan, store, number, task)
        batches = list(computed(plan, shard.run(sent, self._watermark * 1000)))
        finish = self._query.finish(plan)
        if finish is not None:
            batches = list(finish.run(batches))
        _fold(metrics, plan, shard.metrics)
        return batches

    def _read(self, rows: pa.Table, clock: int) -> Iterator[pa.RecordBatch]:
        """The columns that the stages read, with filters."""
        query, plan = self._query, self._plan
        names = rows.column_names if plan.late_row is not None else [n for n in plan.types if n in rows.column_names]
        columns = {name: _whole(rows[name]) for name in names}
        read = {name: _whole(rows[name]) for name in rows.column_names}
        conditions: Mapping[str, Any] = query.filters.columns  # conditions of `Rows.filter`
        columns |= {name: condition.of(read) for name, condition in conditions.items()}
        if plan.marks in read:
            columns[plan.marks] = read[plan.marks]
        if query.max_ahead is not None:
            limit = pa.scalar(clock * 1000 + query.max_ahead, pa.int64())
            columns[AHEAD] = pc.greater(read[query.time].cast(pa.int64()), limit)
            if query.watermark_column is not None:
                marks = read[query.watermark_column].cast(pa.int64())
                columns[MARKS] = pc.if_else(pc.greater(marks, limit), None, marks)
        yield pa.record_batch(columns)

    def _rows(self, batch: pa.RecordBatch) -> list[Row]:
        names = [self._query.key_names.get(name, name) for name in batch.schema.names]
        table = pa.Table.from_batches([batch]).rename_columns(names)
        rows: list[Row] = table.append_column("window_time", self._last_instants(table)).to_pylist()
        return rows

    def _last_instants(self, table: pa.Table) -> pa.Array:
        """The event time of results: see `muntin.spark.build.with_event_time`."""
        end = _whole(table["window"]).field("end") if "window" in table.column_names else _whole(table["as_of"])
        at_tuples = {window.title for window in self._query.windows if window.ends_at_tuple}
        named = table["window_name"].to_pylist() if "window_name" in table.column_names else [None] * len(end)
        only = self._query.windows[0].title
        before = np.array([(name or only) not in at_tuples for name in named], dtype=np.int64)
        return pc.subtract(end.cast(pa.int64()), pa.array(before)).cast(end.type)

    def _both(self, first: Counter[str], last: Counter[str]) -> Counter[str]:
        """The counts of two batches, and the sizes after the second."""
        counters = {metric.name for metric in self._plan.metrics if metric.counter}
        return Counter({name: value + first[name] if name in counters else value for name, value in last.items()})

    def _step(self, found: list[Row], metrics: Counter[str]) -> Step:
        results, late = split(found, self._query.named_keys)
        reached = self._watermark + metrics["idle_ahead"] // 1000
        watermark = EPOCH + reached * MILLISECOND if reached else None
        return Step(results, late, watermark, dict(metrics))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _fold(metrics: Counter[str], plan: Plan, shard: Metrics) -> None:
    """The metrics of one more shard."""
    for metric in plan.metrics:
        value = shard.get(metric.name)
        metrics[metric.name] = (
            max(metrics[metric.name], value) if metric.fold == "max" else metrics[metric.name] + value
        )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
