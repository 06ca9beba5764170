"""Pruning: drop what no open window needs, and tuples that are too late for all windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from muntin.arrays import BoolArray, Int64Array
from muntin.engine.live import LivePanes
from muntin.engine.operators.operator import ALWAYS
from muntin.engine.plan import Plan
from muntin.panes.table import PaneTable
from muntin.panes.tuples import Tuples
from muntin.panes.watermarks import Watermarks

LateRows: TypeAlias = Callable[[BoolArray, Int64Array, Watermarks, bool], BoolArray]


def without_closed(table: PaneTable, plan: Plan, watermarks: Watermarks, live: LivePanes | None = None) -> PaneTable:
    """The leaves and tuples of a table that open windows need; those of time windows as their trees know them."""
    if live is not None:
        table = live.pruned(table, watermarks.watermark)
    kept = [
        mask
        for operator in plan.operators
        for mask in (
            [None] * len(operator.leaf_sets)
            if live is not None and operator is plan.over_time
            else operator.open(operator.own(table), operator.closes_at(watermarks))
        )
    ]
    return table.filter(kept, _waiting(table, plan, watermarks))


def without_closed_of_part(part: PaneTable, plan: Plan, watermarks: Watermarks) -> PaneTable:
    """The leaves and tuples of a part of a table that open windows may need.

    Leaves of ordered tuples are all kept: whether they are needed depends on the last tuple of the key, and only the
    full table has that.
    """
    kept: list[BoolArray] = []
    for operator in plan.operators:
        own_leaves = operator.own(part)
        if operator.needs_order:
            kept += [np.ones(len(leaves), dtype=bool) for leaves in own_leaves]
        else:
            kept += operator.open(own_leaves, watermarks.watermark)
    return part.filter(kept, _waiting(part, plan, watermarks))


def _waiting(table: PaneTable, plan: Plan, watermarks: Watermarks) -> BoolArray | None:
    return None if table.tuples is None else waiting(table.tuples.time, plan, watermarks)


def waiting(times: Int64Array, plan: Plan, watermarks: Watermarks) -> BoolArray:
    """Which tuples wait: they are not finalized, or their chunk is not complete."""
    if plan.keeps_tuples:
        return times >= plan.complete_until(watermarks)
    return (times >= watermarks.finalized) & plan.needs_order


def _with_operators(tuples: Tuples, plan: Plan, watermarks: Watermarks) -> Tuples:
    """Newly arrived tuples, with the membership of each without the operators that it is too late for."""
    for index, operator in enumerate(plan.operators):
        late = np.flatnonzero(watermarks.too_late(tuples.time, [window for _, window in operator.windows]))
        if len(late):
            tuples = tuples.without(index, late)
    return tuples


def open_rows(table: PaneTable, plan: Plan, watermarks: Watermarks, counted: LateRows) -> tuple[PaneTable, int]:
    """What arrived, without what is too late for all of its windows, and how many late tuples there were.

    `counted` selects the late panes or tuples that this shard counts.
    """
    if watermarks.watermark <= ALWAYS:
        return table, 0
    late_rows = 0
    if table.tuples is not None:
        late = watermarks.too_late(table.tuples.time, plan.own_windows)
        late_rows = int(counted(late, table.tuples.time, watermarks, True).sum())
        if plan.keeps_tuples:
            table = replace(table, tuples=_with_operators(table.tuples, plan, watermarks))
        table = table.only(tuples=~late)
    operator = plan.over_time
    if operator is None:
        return table, late_rows
    kept = operator.open(operator.own(table), watermarks.watermark)
    if table.tuples is None or plan.layout.weighs:
        late_rows = int(np.sum(table.panes.state[0][counted(~kept[0], table.panes.time, watermarks, False)]))
    other_leaves = [np.ones(len(leaves), dtype=bool) for leaves in table.leaves[len(kept) :]]
    return table.filter([*kept, *other_leaves]), late_rows
