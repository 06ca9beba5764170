"""Updates as a feature: it selects the windows that may have changed, and emits those that have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.durations import describe
from muntin.engine.batch import Selected, ShardBatch
from muntin.engine.emitted import Emitted, Results
from muntin.engine.features import Feature, ShardFeature, Task
from muntin.engine.metrics import Metric
from muntin.engine.operators.operator import TupleOperator
from muntin.engine.operators.time import TimeOperator
from muntin.engine.plan import Plan
from muntin.features.order import UPDATES
from muntin.features.updates.comparison import Comparison, with_columns
from muntin.features.updates.ledger import LedgerStore
from muntin.features.updates.pending import Pending
from muntin.features.updates.policy import Updates
from muntin.features.updates.selection import (
    ON_TIME,
    Changed,
    Times,
    View,
    closing_keys,
    windows_over,
)

HEADER = "updates"
LEDGER, PENDING = "updates_ledger", "updates_pending"
"""Notes for the worker's memory."""


@dataclass(frozen=True)
class Updating(Feature):
    """Windows are emitted when they have changed."""

    policy: Updates
    retracts: bool = False
    """Whether windows may cease to exist, as sessions do when they merge."""
    name = "updates"
    order = UPDATES
    metrics = (
        Metric("early_results", "The results of windows that were still open.", counter=True),
        Metric("late_results", "The results of windows that had closed before, and were corrected.", counter=True),
        Metric("ledger_bytes", "Bytes in the state of what was last emitted of windows that may still change."),
        Metric("unchanged_windows", "Windows that got rows and were not emitted, as their answers had not changed."),
    )

    @property
    def added_columns(self) -> tuple[pa.Field, ...]:
        columns = pa.field("timing", pa.string()), pa.field("revision", pa.int64())
        return (*columns, pa.field("retracted", pa.bool_())) if self.retracts else columns

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return UpdatesOfShard(plan, self.policy, task) if plan.streaming else UpdatesOfTable()

    def identity(self) -> tuple[object, ...]:
        return ("updates", self.policy.on_change, self.policy.within)

    def described(self) -> Mapping[str, Any]:
        return {
            "call": "updates",
            "compared": ["emission", "within"],
            "emission": "on_change" if self.policy.on_change else "on_close",
            "within": None if self.policy.within is None else describe(self.policy.within),
            "written": self.policy.written,
        }


class UpdatesOfTable(ShardFeature):
    """In a table nothing is early or late: every window has one row."""

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        for item in emitted:
            if isinstance(item, Results):
                count = item.rows.num_rows
                zeros = np.zeros(count, dtype=np.int64)
                item = replace(item, rows=with_columns(item.rows, np.full(count, ON_TIME), zeros, retracted=False))
            yield item


class UpdatesOfShard(ShardFeature):
    """The updates of one shard in one batch."""

    def __init__(self, plan: Plan, policy: Updates, task: Task) -> None:
        self._plan = plan
        self._policy = policy
        self._clock = task.clock

    def begin(self, batch: ShardBatch) -> None:
        header = batch.header.parts.get(HEADER, {})
        self._emitted_at: int | None = header.get("emitted")
        self._is_due = self._due()
        self._store = LedgerStore(self._plan, batch.values)
        ledger = batch.notes.get(LEDGER)
        ledger = self._store.read(header.get("parts", ())) if ledger is None else ledger
        self._compared = Comparison(self._plan, self._store, ledger, self._is_due)
        self._pending = Pending(self._plan, batch.values, header.get("pending", ()), batch.notes.get(PENDING))
        self._viewed: list[tuple[TupleOperator, Int64Array]] = []

    def _due(self) -> bool:
        """Whether open windows may be emitted in this batch."""
        if self._policy.every is None or self._emitted_at is None or self._clock is None:
            return self._policy.on_change
        return self._clock * 1000 >= self._emitted_at * 1000 + self._policy.every

    def select(self, batch: ShardBatch) -> Iterator[Selected]:
        """The windows that may have changed, and with `on_close` those that close."""
        assert batch.ingested is not None
        fresh = Changed.of(self._plan, batch.ingested)
        changed = self._pending.add(fresh, batch.ingested.table) if self._policy.on_change else fresh
        for operator in self._plan.operators:
            times = Times.of(batch, operator)
            if isinstance(operator, TimeOperator):
                yield from self._over_time(batch, operator, times, changed)
            elif isinstance(operator, TupleOperator):
                keys = changed.keys if self._is_due else closing_keys(batch, operator, times)
                yield from self._over_tuples(batch, operator, times, np.union1d(fresh.keys, keys))

    def _over_time(
        self, batch: ShardBatch, operator: TimeOperator, times: Times, changed: Changed
    ) -> Iterator[Selected]:
        if self._is_due:
            yield from windows_over(batch, operator, changed.panes, times.final)
        elif self._policy.on_change:
            yield from windows_over(batch, operator, changed.panes, times.final, times.now)
        else:
            yield from windows_over(batch, operator, changed.panes, times.final, times.closed)
            yield from batch.closing_windows(operator, times.closed, times.now)

    def _over_tuples(
        self, batch: ShardBatch, operator: TupleOperator, times: Times, keys: Int64Array
    ) -> Iterator[Selected]:
        if len(keys):
            self._viewed.append((operator, keys))
            yield from View.of(batch, keys).windows(operator, times.final, self._plan.keeps_tuples)

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        assert batch is not None
        for item in emitted:
            if isinstance(item, Results) and item.windows is not None:
                yield self._compared.changed(item, batch)
            else:
                yield item
        for operator, keys in self._viewed:
            yield from self._compared.retracted(operator, keys, batch)

    def commit(self, batch: ShardBatch) -> Mapping[str, Any]:
        plan, compared = self._plan, self._compared
        final = {model: operator.closes_at(batch.now) for operator in plan.operators for model, _ in operator.windows}
        ledger = self._store.with_entries(
            compared.ledger, compared.entries, [final[model] for model in range(len(plan.windows))]
        )
        if compared.emits_early and self._clock is not None:
            self._emitted_at = self._clock
        if self._is_due or not self._policy.on_change:
            self._pending.clear()
        else:
            self._pending.keep(batch.now.watermark + plan.correctable)
        batch.new_notes.update({LEDGER: ledger, PENDING: self._pending.table})
        parts, pending = self._store.described(ledger), self._pending.described
        batch.metrics["ledger_bytes"] = sum(size for _, size, *_ in [*parts, *pending])
        return {HEADER: {"parts": parts, "pending": pending, "emitted": self._emitted_at}}
