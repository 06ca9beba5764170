"""Which windows may have changed: those over panes that got rows, and those of keys whose rows are numbered.

Windows over time are found by the changed panes. Of all other windows, all windows of a changed key are answered that
are not final, as a table of the rows so far would: over a view in which every row is in its final order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from muntin.arrays import Int64Array, spans
from muntin.engine.batch import Selected, ShardBatch
from muntin.engine.contents import ShardTuples
from muntin.engine.ingest import Ingested, ingest
from muntin.engine.operators.operator import NEVER_MORE, TupleOperator, WindowOperator
from muntin.engine.operators.time import TimeOperator
from muntin.engine.plan import Plan
from muntin.panes.table import Leaves, PaneTable, merged_keys
from muntin.panes.watermarks import Watermarks

EARLY, ON_TIME, LATE = range(3)
FEW = 4
"""If fewer than one leaf in this many belongs to a key that has changed, windows are answered from a smaller table."""


@dataclass(frozen=True)
class Times:
    """The times that separate early, on-time and late rows of an operator's windows."""

    final: int
    """Windows that were complete at this watermark could not change in this batch."""
    closed: int
    """Windows that were complete at this watermark had closed before this batch."""
    now: int
    """Windows that are complete at this watermark are closed."""
    last_tuple: int
    """1 if windows end with a tuple, which they contain; 0 if their end is behind all of their tuples."""

    @classmethod
    def of(cls, batch: ShardBatch, operator: WindowOperator) -> Times:
        closed, now = (operator.closes_at(watermarks) for watermarks in (batch.closed, batch.now))
        lag = batch.plan.correctable
        return cls(closed, closed + lag, now + lag, int(operator.needs_order))

    def complete(self, end: Int64Array) -> Int64Array:
        """The watermark at which windows with these ends are complete."""
        return end + self.last_tuple

    def timing(self, end: Int64Array) -> Int64Array:
        """The timing of windows with these ends."""
        complete = self.complete(end)
        return np.where(complete > self.now, EARLY, np.where(complete > self.closed, ON_TIME, LATE))


@dataclass(frozen=True)
class Changed:
    """What has changed in a batch, under the key codes of a table."""

    panes: Leaves
    """The panes that got rows."""
    keys: Int64Array
    """The keys that got rows, if there are windows over tuples; in order."""

    @classmethod
    def of(cls, plan: Plan, ingested: Ingested) -> Changed:
        nothing = np.zeros(0, dtype=np.int64)
        panes, keys = Leaves(nothing, nothing, (nothing,)), nothing
        if plan.over_time is not None and ingested.arrived is not None:
            arrived = ingested.arrived.panes
            counted = Leaves(arrived.key, arrived.time, arrived.state[:1])
            panes = recoded(plan, counted, ingested.arrived, ingested.table)
        if ingested.fresh is not None and any(isinstance(operator, TupleOperator) for operator in plan.operators):
            keys = np.unique(ingested.fresh.key)
        return cls(panes, keys)


def recoded(plan: Plan, leaves: Leaves, source: PaneTable, table: PaneTable) -> Leaves:
    """Leaves of one table with the key codes of another one, without those of other keys."""
    if source.keys is table.keys:
        return leaves
    _, (ours, theirs) = merged_keys(plan.layout, [table, source])
    codes = np.full(max(int(ours.max(initial=-1)), int(theirs.max(initial=-1))) + 1, -1, dtype=np.int64)
    codes[ours] = np.arange(len(ours))
    key = codes[theirs][leaves.key]
    order = np.argsort(key, kind="stable")
    leaves = replace(leaves, key=key).take(order)
    return leaves.take(leaves.key >= 0)


# Windows over time


def windows_over(
    batch: ShardBatch, operator: TimeOperator, panes: Leaves, after: int, until: int = NEVER_MORE
) -> Iterator[Selected]:
    """The windows over some panes whose end is in `(after, until]`."""
    assert batch.ingested is not None
    assert batch.tuples is not None
    if not len(panes):
        return
    table = _of_few_keys(batch.ingested.table, panes.key)
    reader = operator.reader(table)
    others = (leaf_set.empty() for leaf_set in batch.plan.layout.leaf_sets[1:])
    found = operator.reader(PaneTable(table.keys, (panes, *others), {}))
    for closing in found.closing(after, until, batch.plan.keeps_tuples):
        # The table may have more keys with panes in a window than those that have changed.
        closing = replace(closing, answers=replace(closing.answers, alone=False))
        yield Selected(operator, reader, closing, table, batch.tuples)


def _of_few_keys(table: PaneTable, key: Int64Array) -> PaneTable:
    """The leaves of these keys only, if they are few; codes stay as they are."""
    keys = np.unique(key)
    first, last = (np.searchsorted(table.panes.key, keys, side=side) for side in ("left", "right"))
    if FEW * int((last - first).sum()) >= len(table.panes):
        return table
    return replace(table, leaves=tuple(_of_keys(leaves, keys) for leaves in table.leaves))


def _of_keys(leaves: Leaves, keys: Int64Array) -> Leaves:
    first, last = (np.searchsorted(leaves.key, keys, side=side) for side in ("left", "right"))
    return leaves.take(spans(first, last - first))


# Windows over tuples


def closing_keys(batch: ShardBatch, operator: TupleOperator, times: Times) -> Int64Array:
    """The keys that may have a window that closes with this batch."""
    assert batch.ingested is not None
    if operator.needs_order:
        tuples = batch.ingested.tuples
        assert tuples is not None
        complete = times.complete(tuples.time)
        return tuples.key[(complete > times.closed) & (complete <= times.now)]
    reader = operator.reader(batch.ingested.table)
    closing = [windows.answers for windows in reader.closing(times.closed, times.now, numbered=False)]
    keys = [answers.key[answers.end > times.closed] for answers in closing]
    return np.concatenate([np.zeros(0, dtype=np.int64), *keys])


@dataclass(frozen=True)
class View:
    """Some keys of a shard, as though all of their tuples were in their final order."""

    table: PaneTable
    tuples: ShardTuples

    @classmethod
    def of(cls, batch: ShardBatch, keys: Int64Array) -> View:
        plan, ingested = batch.plan, batch.ingested
        assert ingested is not None
        assert ingested.tuples is not None
        leaves = [
            leaf_set.empty() if isinstance(operator, TimeOperator) else _of_keys(own, keys)
            for operator in plan.operators
            for leaf_set, own in zip(operator.leaf_sets, operator.own(ingested.table), strict=True)
        ]
        tuples = ingested.tuples.take(np.isin(ingested.tuples.key, keys))
        before = PaneTable(ingested.table.keys, tuple(leaves), ingested.table.dictionaries, tuples)
        # What is final by now has its order; everything else gets it.
        seen = ingest(plan, before, None, batch.now, Watermarks.at(NEVER_MORE))
        assert seen is not None
        contents = ShardTuples(
            plan.schema, plan.layout, plan.operators, seen.table, seen.tuples, NEVER_MORE, batch.chunks
        )
        return cls(seen.table, contents)

    def windows(self, operator: TupleOperator, after: int, numbered: bool) -> Iterator[Selected]:
        """All windows of the keys that were not final at a watermark."""
        reader = operator.reader(self.table)
        for closing in reader.closing(after, NEVER_MORE, numbered):
            yield Selected(operator, reader, closing, self.table, self.tuples)
