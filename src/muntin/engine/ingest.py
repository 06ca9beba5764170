"""Panes and tuples that arrive, ingested by the operators of a shard, and what of them has to be written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from muntin.arrays import BoolArray, Int64Array, run_starts
from muntin.engine.operators.operator import Arrival, TupleOperator
from muntin.engine.plan import Plan
from muntin.engine.pruning import waiting, without_closed_of_part
from muntin.panes.table import Leaves, PaneTable, compacted, merge
from muntin.panes.tuples import Tuples
from muntin.panes.watermarks import Watermarks


@dataclass(frozen=True)
class Ingested:
    """A table with what arrived, and what of it is new."""

    table: PaneTable
    arrived: PaneTable | None
    """The panes that arrived, and the tuples that wait."""
    made: tuple[PaneTable, ...]
    """What the operators made of tuples, in the table's codes of keys."""
    invalid_rows: int
    """How many tuples an operator set aside."""
    tuples: Tuples | None
    """All that are in no chunk yet, those that do not wait any more among them."""
    is_fresh: BoolArray | None = None
    """Which of them have just arrived."""
    finalized_at: Int64Array | None = None
    """Which of them are finalized with this batch, in order."""

    @cached_property
    def fresh(self) -> Tuples | None:
        """The tuples that have just arrived."""
        return None if self.tuples is None or self.is_fresh is None else self.tuples.take(self.is_fresh)

    @cached_property
    def finalized(self) -> Tuples | None:
        """The tuples that are finalized with this batch, in order."""
        return None if self.tuples is None or self.finalized_at is None else self.tuples.take(self.finalized_at)


def ingest(
    plan: Plan, before: PaneTable | None, arrived: PaneTable | None, closed: Watermarks, now: Watermarks
) -> Ingested | None:
    """Add what arrived to the table before; None if there is nothing at all."""
    present = [table for table in (before, arrived) if table is not None]
    if not present:
        return None
    table = merge(plan.layout, present)
    if table.tuples is None:
        return Ingested(table, arrived, (), 0, None)
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
            if leaves_made.bad is not None:
                invalid_rows += len(leaves_made.bad)
                tuples = tuples.without(index, finalized_at[leaves_made.bad]) if plan.keeps_tuples else tuples
    table = replace(table, tuples=tuples)
    if plan.writes_through and not now.waits and not plan.needs_order:
        # All of them are fresh, and leave in order: they are sorted once for all who need that.
        order = tuples.order()
        tuples, is_fresh = tuples.take(order), is_fresh[order]
        table = replace(table, tuples=tuples)
    waits = waiting(tuples.time, plan, now)
    return Ingested(
        table=merge(plan.layout, [table.only(tuples=waits), *made], overlay=True),
        arrived=None if arrived is None else arrived.only(tuples=waits[is_fresh]),
        made=tuple(made),
        invalid_rows=invalid_rows,
        tuples=tuples,
        is_fresh=is_fresh,
        finalized_at=finalized_at,
    )


def additions(plan: Plan, ingested: Ingested, left: PaneTable, now: Watermarks) -> PaneTable | None:
    """What has to be written: what is new and among what is `left`, as some window needs it."""
    new = [] if ingested.arrived is None else [ingested.arrived]
    for made in ingested.made:
        kept = [
            _still_there(leaves, still) if operator.needs_order else np.ones(len(leaves), dtype=bool)
            for operator in plan.operators
            for leaves, still in zip(operator.own(made), operator.own(left), strict=True)
        ]
        new.append(compacted(plan.layout, made.filter(kept), slack=0))  # without the keys that nothing happened to
    if not new:
        return None
    return without_closed_of_part(merge(plan.layout, new, overlay=True), plan, now)


def _still_there(leaves: Leaves, left: Leaves) -> BoolArray:
    """Of a key's numbered tuples, the windows need those from some number on."""
    if not len(leaves):
        return np.zeros(0, dtype=bool)
    first = np.full(int(leaves.key.max()) + 1, np.iinfo(np.int64).max)
    starts = run_starts(left.key)
    starts = starts[left.key[starts] < len(first)]
    first[left.key[starts]] = left.time[starts]
    return leaves.time >= (first[0] if len(first) == 1 else first[leaves.key])
