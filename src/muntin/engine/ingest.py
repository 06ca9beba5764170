"""Panes and tuples that arrive, taken in by the families of a shard, and what of them has to be written."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from muntin.arrays import BoolArray, run_starts
from muntin.engine.operators.operator import Arrival, TupleFamily
from muntin.engine.store import waiting, without_closed_of_part
from muntin.panes.table import Leaves, PaneTable, compacted, merge
from muntin.panes.tuples import Tuples
from muntin.panes.watermarks import Marks
from muntin.plan import Plan


@dataclass(frozen=True)
class Taken:
    """A table with what arrived, and what of it is new."""

    table: PaneTable
    arrived: PaneTable | None
    """The panes that arrived, and the tuples that wait."""
    made: tuple[PaneTable, ...]
    """What the families made of tuples, in the table's codes of keys."""
    bad_rows: int
    """How many tuples a family set aside."""
    tuples: Tuples | None
    """All that are in no chunk yet, those that are not waiting any more among them."""
    fresh: Tuples | None = None
    """Those that have just arrived."""
    settled: Tuples | None = None
    """Those that are settled with this batch, in order."""


def absorb(plan: Plan, before: PaneTable | None, arrived: PaneTable | None, closed: Marks, now: Marks) -> Taken | None:
    """Take in what arrived; None if there is nothing at all."""
    present = [each for each in (before, arrived) if each is not None]
    if not present:
        return None
    table = merge(plan.layout, present)
    if table.tuples is None:
        return Taken(table, arrived, (), 0, None)
    fresh = np.arange(len(table.tuples)) >= (0 if before is None or before.tuples is None else len(before.tuples))
    settled = (table.tuples.time >= closed.settled) & (table.tuples.time < now.settled) & plan.settles
    settled_at = np.flatnonzero(settled)
    settled_at = settled_at[table.tuples.take(settled_at).order()]
    arrival = Arrival(table.tuples, fresh, table.tuples.take(settled_at), settled_at, closed.watermark)
    tuples, made, bad_rows = table.tuples, [], 0
    for index, family in enumerate(plan.families):
        absorbed = family.absorb(plan, table, arrival) if isinstance(family, TupleFamily) else None
        if absorbed is not None:
            made.append(absorbed.table)
            if absorbed.bad is not None:
                bad_rows += len(absorbed.bad)
                tuples = tuples.without(index, settled_at[absorbed.bad]) if plan.whole else tuples
    table = replace(table, tuples=tuples)
    samples = plan.samples and not now.waits
    if samples and not plan.settles:
        # All of them are fresh, and in order they are sampled and written: sorted once for both.
        order = tuples.order()
        tuples, fresh = tuples.take(order), fresh[order]
        table = replace(table, tuples=tuples)
    waits = waiting(tuples.time, plan, now)
    return Taken(
        table=merge(plan.layout, [table.only(tuples=waits), *made], overlay=True),
        arrived=None if arrived is None else arrived.only(tuples=waits[fresh]),
        made=tuple(made),
        bad_rows=bad_rows,
        tuples=tuples,
        fresh=tuples.take(fresh) if samples else None,
        settled=tuples.take(settled_at) if samples else None,
    )


def additions(plan: Plan, taken: Taken, table: PaneTable, now: Marks) -> PaneTable | None:
    """What has to be written: what is new and still in the table, which has been freed of what no window needs."""
    new = [] if taken.arrived is None else [taken.arrived]
    for made in taken.made:
        kept = [
            _still_there(own, left) if family.settles else np.ones(len(own), dtype=bool)
            for family in plan.families
            for own, left in zip(family.own(made), family.own(table), strict=True)
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
