"""Which windows may have changed: those over the panes that the rows of a batch are in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from muntin.arrays import Int64Array, spans
from muntin.engine.batch import Selected, ShardBatch
from muntin.engine.operators.operator import NEVER_MORE, WindowOperator
from muntin.engine.operators.time import TimeOperator
from muntin.engine.plan import Plan
from muntin.panes.table import Leaves, PaneTable, merged_keys

FEW = 4
"""If fewer than one leaf in this many belongs to a key that has changed, windows are answered from a smaller table."""


@dataclass(frozen=True)
class Times:
    """The times that separate early, on-time and late rows of an operator's windows."""

    final: int
    """Windows that ended until then could not change in this batch."""
    closed: int
    """Windows that ended until then had closed before this batch."""
    now: int
    """Windows that ended until then are closed."""

    @classmethod
    def of(cls, plan: Plan, batch: ShardBatch, operator: WindowOperator) -> Times:
        closed, now = (operator.closes_at(watermarks) for watermarks in (batch.closed, batch.now))
        return cls(closed, closed + plan.correctable, now + plan.correctable)


def changed_panes(plan: Plan, changed: PaneTable, table: PaneTable) -> PaneTable:
    """A table with the changed panes, under the key codes of `table`, which has them all."""
    panes = changed.panes
    if changed.keys is not table.keys:
        _, (ours, theirs) = merged_keys(plan.layout, [table, changed])
        codes = np.empty(max(int(ours.max(initial=-1)), int(theirs.max(initial=-1))) + 1, dtype=np.int64)
        codes[ours] = np.arange(len(ours))
        key = codes[theirs][panes.key]
        order = np.argsort(key, kind="stable")
        panes = Leaves(key[order], panes.time[order], ())
    leaves = [panes, *(leaf_set.empty() for leaf_set in plan.layout.leaf_sets[1:])]
    return PaneTable(table.keys, tuple(leaves), {}, None)


def of_keys(table: PaneTable, keys: Int64Array) -> PaneTable:
    """The leaves of these keys only, if they are few; codes stay as they are."""
    first, last = (np.searchsorted(table.panes.key, keys, side=side) for side in ("left", "right"))
    if FEW * int((last - first).sum()) >= len(table.panes):
        return table
    leaves = []
    for of_set in table.leaves:
        first, last = (np.searchsorted(of_set.key, keys, side=side) for side in ("left", "right"))
        leaves.append(of_set.take(spans(first, last - first)))
    return replace(table, leaves=tuple(leaves))


def windows_over(
    batch: ShardBatch, operator: TimeOperator, panes: PaneTable, after: int, until: int = NEVER_MORE
) -> Iterator[Selected]:
    """The windows over some panes whose end is in `(after, until]`."""
    assert batch.ingested is not None
    assert batch.tuples is not None
    table = of_keys(batch.ingested.table, np.unique(panes.panes.key))
    reader = operator.reader(table)
    for closing in operator.reader(panes).closing(after, until, batch.plan.keeps_tuples):
        # The table may have more keys with panes in a window than those that have changed.
        closing = replace(closing, answers=replace(closing.answers, alone=False))
        yield Selected(operator, reader, closing, table, batch.tuples)
