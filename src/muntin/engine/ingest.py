"""The operators of a shard ingest arriving panes and tuples; what is new has to be written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from muntin.arrays import BoolArray, Int64Array, run_starts
from muntin.engine.live import LivePanes
from muntin.engine.operators.operator import Arrival, TupleOperator
from muntin.engine.plan import Plan
from muntin.engine.pruning import waiting, without_closed_of_part
from muntin.panes.table import Leaves, PaneTable, compacted, merge
from muntin.panes.tuples import Tuples
from muntin.panes.watermarks import Watermarks


@dataclass(frozen=True)
class Ingested:
    """The table after a batch was ingested, and what is new in it."""

    table: PaneTable
    live: LivePanes | None
    """The trees over it that live from batch to batch, if there are any."""
    arrived: PaneTable | None
    """The panes that arrived, and those of the arrived tuples that wait."""
    made: tuple[PaneTable, ...]
    """The leaves that operators made of tuples, with the table's key codes."""
    invalid_rows: int
    """How many tuples an operator set aside."""
    tuples: Tuples | None
    """All tuples outside of chunks, including those that no longer wait."""
    is_fresh: BoolArray | None = None
    """Which of them are newly arrived."""
    finalized_at: Int64Array | None = None
    """Which of them are finalized with this batch, in order."""

    @cached_property
    def fresh(self) -> Tuples | None:
        """The newly arrived tuples."""
        return None if self.tuples is None or self.is_fresh is None else self.tuples.take(self.is_fresh)

    @cached_property
    def finalized(self) -> Tuples | None:
        """The tuples that are finalized with this batch, in order."""
        return None if self.tuples is None or self.finalized_at is None else self.tuples.take(self.finalized_at)


def ingest(
    plan: Plan,
    before: PaneTable | None,
    arrived: PaneTable | None,
    closed: Watermarks,
    now: Watermarks,
    live: LivePanes | None = None,
) -> Ingested | None:
    """Add what arrived to the table of the batch before, and to the trees over it; None if both are empty."""
    present = [table for table in (before, arrived) if table is not None]
    if not present:
        return None
    if live is None or before is None or arrived is None or not arrived.size:
        table = merge(plan.layout, present)
    else:
        table, live = live.merged(plan.layout, before, arrived)
    if table.tuples is None:
        return Ingested(table, live, arrived, (), 0, None)
    is_fresh = np.arange(len(table.tuples)) >= (0 if before is None or before.tuples is None else len(before.tuples))
    finalized = (table.tuples.time >= closed.finalized) & (table.tuples.time < now.finalized) & plan.needs_order
    finalized_at = np.flatnonzero(finalized)
    finalized_at = finalized_at[table.tuples.take(finalized_at).order()]
    arrival = Arrival(table.tuples, is_fresh, table.tuples.take(finalized_at), finalized_at, closed.watermark)
    tuples, made, invalid_rows = table.tuples, [], 0
    for index, operator in enumerate(plan.operators):
        leaves_made = (
            operator.ingest_tuples(plan.layout, table, arrival) if isinstance(operator, TupleOperator) else None
        )
        if leaves_made is not None:
            made.append(leaves_made.table)
            if leaves_made.invalid is not None:
                invalid_rows += len(leaves_made.invalid)
                tuples = tuples.without(index, finalized_at[leaves_made.invalid]) if plan.keeps_tuples else tuples
    table = replace(table, tuples=tuples)
    if plan.writes_through and not now.waits and not plan.needs_order:
        # All of them are fresh and are written in order: sort them once here.
        order = tuples.order()
        tuples, is_fresh = tuples.take(order), is_fresh[order]
        table = replace(table, tuples=tuples)
    waits = waiting(tuples.time, plan, now)
    table = merge(plan.layout, [table.only(tuples=waits), *made], overlay=True)
    if live is not None:
        live.follow(table.dictionaries)
    return Ingested(
        table=table,
        live=live,
        arrived=None if arrived is None else arrived.only(tuples=waits[is_fresh]),
        made=tuple(made),
        invalid_rows=invalid_rows,
        tuples=tuples,
        is_fresh=is_fresh,
        finalized_at=finalized_at,
    )


def additions(plan: Plan, ingested: Ingested, left: PaneTable, now: Watermarks) -> PaneTable | None:
    """What has to be written: new leaves and tuples that are still needed, as they are in `left`."""
    new = [] if ingested.arrived is None else [ingested.arrived]
    for made in ingested.made:
        kept = [
            _still_needed(leaves, left_leaves) if operator.needs_order else np.ones(len(leaves), dtype=bool)
            for operator in plan.operators
            for leaves, left_leaves in zip(operator.own(made), operator.own(left), strict=True)
        ]
        new.append(compacted(plan.layout, made.filter(kept), slack=0))  # without keys that have nothing new
    if not new:
        return None
    return without_closed_of_part(merge(plan.layout, new, overlay=True), plan, now)


def _still_needed(leaves: Leaves, left: Leaves) -> BoolArray:
    """Which leaves are not before the first leaf of their key in `left`: windows need a suffix of numbered tuples."""
    if not len(leaves):
        return np.zeros(0, dtype=bool)
    first = np.full(int(leaves.key.max()) + 1, np.iinfo(np.int64).max)
    starts = run_starts(left.key)
    starts = starts[left.key[starts] < len(first)]
    first[left.key[starts]] = left.time[starts]
    return leaves.time >= (first[0] if len(first) == 1 else first[leaves.key])
