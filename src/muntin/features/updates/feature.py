"""Updates as a feature: it selects the windows that may have changed, and emits those that have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.engine.batch import Selected, ShardBatch
from muntin.engine.emitted import Emitted, Results
from muntin.engine.features import Feature, ShardFeature, Task
from muntin.engine.metrics import Metric
from muntin.engine.operators.operator import Answers
from muntin.engine.operators.time import TimeOperator
from muntin.engine.plan import Plan
from muntin.features.order import UPDATES
from muntin.features.updates.digests import digests
from muntin.features.updates.ledger import LedgerStore
from muntin.features.updates.pending import Pending
from muntin.features.updates.policy import Updates
from muntin.features.updates.selection import Times, changed_panes, windows_over
from muntin.panes.table import Leaves

EARLY, ON_TIME, LATE = range(3)
TIMINGS = pa.array(["early", "on_time", "late"])
HEADER = "updates"


@dataclass(frozen=True)
class Updating(Feature):
    """Windows are emitted when they have changed."""

    policy: Updates
    name = "updates"
    order = UPDATES
    metrics = (
        Metric("early_results", "The results of windows that were still open.", counter=True),
        Metric("late_results", "The results of windows that had closed before, and were corrected.", counter=True),
        Metric("unchanged_windows", "Windows that got rows and were not emitted, as their answers had not changed."),
    )
    added_columns = (pa.field("timing", pa.string()), pa.field("revision", pa.int64()))

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return UpdatesOfShard(plan, self.policy, task) if plan.streaming else UpdatesOfTable()

    def identity(self) -> tuple[object, ...]:
        return ("updates", self.policy.on_change, self.policy.within)

    def described(self) -> Mapping[str, Any]:
        return {
            "call": "updates",
            "compared": ["emission", "within"],
            "emission": "on_change" if self.policy.on_change else "on_close",
            "within": self.policy.within,
            "written": self.policy.written,
        }


class UpdatesOfTable(ShardFeature):
    """In a table nothing is early or late: every window has one row."""

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        for item in emitted:
            if isinstance(item, Results):
                count = item.rows.num_rows
                item = replace(item, rows=_with_columns(item.rows, np.full(count, ON_TIME), np.zeros(count, np.int64)))
            yield item


class UpdatesOfShard(ShardFeature):
    """The updates of one shard in one batch."""

    def __init__(self, plan: Plan, policy: Updates, task: Task) -> None:
        self._plan = plan
        self._policy = policy
        self._clock = task.clock

    def begin(self, batch: ShardBatch) -> None:
        header = batch.header.parts.get(HEADER, {})
        self._store = LedgerStore(self._plan, batch.values)
        ledger = batch.notes.get("ledger")
        self._ledger = self._store.read(header.get("parts", ())) if ledger is None else ledger
        self._pending = Pending(self._plan, batch.values, header.get("pending", ()), batch.notes.get("pending"))
        self._emitted_at: int | None = header.get("emitted")
        self._is_due = self._due()
        self._added: list[list[Leaves]] = [[] for _ in self._plan.windows]
        self._codes: tuple[pa.RecordBatch | None, Int64Array] = (None, np.zeros(0, dtype=np.int64))

    def _due(self) -> bool:
        """Whether open windows may be emitted in this batch."""
        if self._policy.every is None or self._emitted_at is None or self._clock is None:
            return self._policy.on_change
        return self._clock * 1000 >= self._emitted_at * 1000 + self._policy.every

    def select(self, batch: ShardBatch) -> Iterator[Selected]:
        """The windows that may have changed, and with `on_close` those that close."""
        assert batch.ingested is not None
        for operator in self._plan.operators:
            assert isinstance(operator, TimeOperator)
            times = Times.of(self._plan, batch, operator)
            if not self._policy.on_change:
                yield from self._corrected(batch, operator, times)
                yield from self._closing(batch, operator, times)
                continue
            changed = self._pending.add(batch.ingested.arrived)
            if changed is not None:
                panes = changed_panes(self._plan, changed, batch.ingested.table)
                yield from windows_over(batch, operator, panes, times.final, *(() if self._is_due else (times.now,)))

    def _closing(self, batch: ShardBatch, operator: TimeOperator, times: Times) -> Iterator[Selected]:
        assert batch.ingested is not None
        assert batch.tuples is not None
        table = batch.ingested.table
        reader = operator.reader(table)
        for closing in reader.closing(times.closed, times.now, self._plan.keeps_tuples):
            yield Selected(operator, reader, closing, table, batch.tuples)

    def _corrected(self, batch: ShardBatch, operator: TimeOperator, times: Times) -> Iterator[Selected]:
        """The windows that had closed and may have changed."""
        assert batch.ingested is not None
        if batch.ingested.arrived is not None:
            panes = changed_panes(self._plan, batch.ingested.arrived, batch.ingested.table)
            yield from windows_over(batch, operator, panes, times.final, times.closed)

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        assert batch is not None
        for item in emitted:
            if isinstance(item, Results) and item.windows is not None:
                yield self._changed(item, item.windows.answers, batch)
            else:
                yield item

    def _changed(self, item: Results, answers: Answers, batch: ShardBatch) -> Results:
        """The rows that differ from the last ones of their windows."""
        assert item.windows is not None
        plan = self._plan
        names = [column.name for column in plan.schema.columns] + ["quality"] * plan.schema.is_estimated
        digest = digests([item.rows.column(name) for name in names], len(answers.key))
        key, revision, is_changed = self._codes_of(answers, batch), np.empty_like(digest), np.ones(len(digest), bool)
        for model in range(len(plan.windows)):
            rows = np.flatnonzero(answers.model == model) if len(plan.windows) > 1 else np.arange(len(digest))
            window, code = answers.window[rows], key[rows]
            revision[rows], last = self._ledger.last(model, window, code)
            changed = (revision[rows] < 0) | (last != digest[rows])
            is_changed[rows], rows = changed, rows[changed]
            revision[rows] += 1
            self._added[model].append(Leaves(key[rows], answers.window[rows], (revision[rows], digest[rows])))
        changed_rows = np.flatnonzero(is_changed)
        operator_times = Times.of(plan, batch, item.windows.operator)
        end = answers.end[changed_rows]
        timing = np.where(end > operator_times.now, EARLY, np.where(end > operator_times.closed, ON_TIME, LATE))
        early, late = int((timing == EARLY).sum()), int((timing == LATE).sum())
        batch.metrics.add(early_results=early, late_results=late, unchanged_windows=len(digest) - len(changed_rows))
        if early and self._clock is not None:
            self._emitted_at = self._clock
        rows = item.rows if len(changed_rows) == len(digest) else item.rows.take(pa.array(changed_rows))
        return replace(
            item, rows=_with_columns(rows, timing, revision[changed_rows]), windows=item.windows.take(changed_rows)
        )

    def _codes_of(self, answers: Answers, batch: ShardBatch) -> Int64Array:
        """The codes of the windows' keys in the ledger."""
        assert batch.ingested is not None
        keys = batch.ingested.table.keys
        if self._codes[0] is not keys:
            self._ledger, codes = self._ledger.with_keys(self._store.layout, keys)
            self._codes = keys, codes
        return self._codes[1][answers.key]

    def commit(self, batch: ShardBatch) -> Mapping[str, Any]:
        arrived = None if batch.ingested is None else batch.ingested.arrived
        added = [_joined(leaves) for leaves in self._added]
        ledger = self._store.with_entries(self._ledger, added, batch.now.watermark)
        if self._is_due or not self._policy.on_change:
            self._pending.clear()
        else:
            self._pending.keep(arrived, batch.now.watermark + self._plan.correctable)
        batch.new_notes.update(ledger=ledger, pending=self._pending.panes)
        parts, pending = self._store.described(ledger), self._pending.described
        return {HEADER: {"parts": parts, "pending": pending, "emitted": self._emitted_at}}


def _joined(leaves: Iterable[Leaves]) -> Leaves:
    """Leaves of several pieces of a batch."""
    parts = list(leaves) or [Leaves(*(np.zeros(0, dtype=np.int64),) * 2, (np.zeros(0, dtype=np.int64),) * 2)]
    state = tuple(np.concatenate(columns) for columns in zip(*(part.state for part in parts), strict=True))
    return Leaves(np.concatenate([part.key for part in parts]), np.concatenate([part.time for part in parts]), state)


def _with_columns(rows: pa.RecordBatch, timing: Int64Array, revision: Int64Array) -> pa.RecordBatch:
    columns = {"timing": TIMINGS.take(pa.array(timing)), "revision": pa.array(revision)}
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, rows.column(index)) for index, field in enumerate(rows.schema)], schema=rows.schema
    )
