"""Session windows: per key one leaf for every session that is open.

Tuples become sessions of their own at once, and sessions no more than the gap apart become one. A tuple may still
bridge two of them: then both are replaced. So the sessions of a key are written anew as a whole whenever one of them
changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from muntin.arrays import BoolArray, Int64Array, Runs, run_numbers, run_starts, running_max
from muntin.engine.operators.operator import Answers, Arrival, Closing, OperatorLeaves, TupleOperator
from muntin.engine.operators.partials import FIRST_TIME, LAST_TIME
from muntin.panes.table import Layout, Leaves, PaneTable, arranged, merge
from muntin.partials.rows import Rows
from muntin.windows import SessionWindow


@dataclass(frozen=True)
class SessionOperator(TupleOperator):
    """Where an aggregate needs the order of the tuples, every tuple of an open session keeps a leaf of its own."""

    @property
    def gap(self) -> int:
        ((_, window),) = self.windows
        assert isinstance(window, SessionWindow)
        return window.gap

    def ingest_tuples(self, layout: Layout, table: PaneTable, arrival: Arrival) -> OperatorLeaves | None:
        tuples = arrival.tuples.take(arrival.fresh & (arrival.tuples.time + self.gap > arrival.closed))
        if not len(tuples):
            return None
        tuples = tuples.in_order()
        parted = np.ones(len(tuples), dtype=bool)
        if not self.leaf_set.per_tuple:
            parted[1:] = (np.diff(tuples.key) > 0) | (np.diff(tuples.time) > self.gap)
        starts = np.flatnonzero(parted)
        rows = Rows(tuples.columns, tuples.time, run_numbers(starts, len(tuples)), len(starts))
        leaves = Leaves(tuples.key[starts], tuples.time[starts], self.leaf_set.lift(rows))
        if self.leaf_set.per_tuple:
            leaves = arranged(self.leaf_set, leaves)  # with the tie-break that later tuples will get, too
        added = self.table_of(layout, table, leaves, rows.dictionaries)
        touched = np.zeros(table.keys.num_rows, dtype=bool)
        touched[leaves.key] = True
        (old,) = self.own(table)
        before = self.table_of(layout, table, old.take(touched[old.key]), dict(table.dictionaries))
        both = merge(layout, [before, added])
        joined = self._joined(self.own(both)[0])
        return OperatorLeaves(self.table_of(layout, table, joined, dict(both.dictionaries)))

    def closing(self, table: PaneTable, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        (leaves,) = self.own(table)
        if not len(leaves):
            return
        begin = self.sessions(leaves)
        behind = np.append(begin[1:], len(leaves))
        end = np.maximum.reduceat(leaves.state[LAST_TIME], begin) + self.gap
        start = leaves.state[FIRST_TIME][begin]
        chosen = end <= until
        if self.share is not None:
            chosen &= self.share.owns_session(start)
        at = np.flatnonzero(chosen)
        ((model, _),) = self.windows
        # A session has no number of its own: the time at which it starts tells the sessions of a key apart.
        answers = Answers(np.full(len(at), model), start[at], leaves.key[begin[at]], start[at], end[at])
        yield Closing(answers, (begin[at], behind[at]))

    def open(self, leaves: Sequence[Leaves], watermark: int) -> list[BoolArray]:
        (own,) = leaves
        starts = self.sessions(own)
        if not len(starts):
            return [np.zeros(0, dtype=bool)]
        last = np.maximum.reduceat(own.state[LAST_TIME], starts)
        return [np.repeat(last + self.gap > watermark, np.diff(starts, append=len(own)))]

    def ends(self, leaves: Sequence[Leaves]) -> int:
        (own,) = leaves
        return int(own.state[LAST_TIME].max(initial=0)) + self.gap

    def sessions(self, leaves: Leaves) -> Int64Array:
        """Where a new session begins among leaves in order."""
        starts = run_starts(leaves.key)
        until = running_max(leaves.state[LAST_TIME], starts)
        parted = np.zeros(len(leaves), dtype=bool)
        parted[1:] = leaves.state[FIRST_TIME][1:] - until[:-1] > self.gap
        parted[starts] = True
        return np.flatnonzero(parted)

    def _joined(self, leaves: Leaves) -> Leaves:
        if self.leaf_set.per_tuple:
            return leaves
        starts = self.sessions(leaves)
        state = self.leaf_set.reduce(leaves.state, Runs.of(starts, len(leaves)))
        return Leaves(leaves.key[starts], leaves.time[starts], state)
