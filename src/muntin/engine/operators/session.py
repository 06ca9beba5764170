"""Session windows: one leaf per key and open session.

Arriving tuples first form sessions of their own. Sessions no further apart than the gap are then merged; a tuple may
bridge two of them. So all sessions of a key are rewritten whenever one of them changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from muntin.arrays import BoolArray, Int64Array, Runs, run_starts, running_max
from muntin.engine.operators.operator import Answers, Arrival, Closing, OperatorLeaves, TupleOperator
from muntin.engine.operators.partials import FIRST_TIME, LAST_TIME
from muntin.panes.table import Layout, Leaves, PaneTable, arranged, merge
from muntin.partials.rows import Rows
from muntin.windows import SessionWindow


@dataclass(frozen=True)
class SessionOperator(TupleOperator):
    """Where an aggregate depends on the order of tuples, every tuple of an open session has a leaf of its own."""

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
        is_start = np.ones(len(tuples), dtype=bool)
        if not self.leaf_set.per_tuple:
            is_start[1:] = (np.diff(tuples.key) > 0) | (np.diff(tuples.time) > self.gap)
        starts = np.flatnonzero(is_start)
        rows = Rows(tuples.columns, tuples.time, Runs.of(starts, len(tuples)), len(starts))
        leaves = Leaves(tuples.key[starts], tuples.time[starts], self.leaf_set.lift(rows))
        if self.leaf_set.per_tuple:
            leaves = arranged(self.leaf_set, leaves)  # with the same tie-break that later tuples get
        added = self.table_of(layout, table, leaves, rows.dictionaries)
        touched = np.zeros(table.keys.num_rows, dtype=bool)
        touched[leaves.key] = True
        (old,) = self.own(table)
        before = self.table_of(layout, table, old.take(touched[old.key]), dict(table.dictionaries))
        merged = merge(layout, [before, added])
        leaves = self._joined(self.own(merged)[0])
        return OperatorLeaves(self.table_of(layout, table, leaves, dict(merged.dictionaries)))

    def closing(self, table: PaneTable, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        (leaves,) = self.own(table)
        if not len(leaves):
            return
        begin = self.sessions(leaves)
        leaves_end = np.append(begin[1:], len(leaves))
        end = np.maximum.reduceat(leaves.state[LAST_TIME], begin) + self.gap
        start = leaves.state[FIRST_TIME][begin]
        is_closed = end <= until
        if self.share is not None:
            is_closed &= self.share.owns_session(start)
        closed = np.flatnonzero(is_closed)
        ((model, _),) = self.windows
        # Sessions are not numbered: the start identifies a session of a key.
        answers = Answers(
            np.full(len(closed), model), start[closed], leaves.key[begin[closed]], start[closed], end[closed]
        )
        yield Closing(answers, (begin[closed], leaves_end[closed]))

    def open(self, leaves: Sequence[Leaves], watermark: int) -> list[BoolArray]:
        (own_leaves,) = leaves
        starts = self.sessions(own_leaves)
        if not len(starts):
            return [np.zeros(0, dtype=bool)]
        last = np.maximum.reduceat(own_leaves.state[LAST_TIME], starts)
        return [np.repeat(last + self.gap > watermark, np.diff(starts, append=len(own_leaves)))]

    def ends(self, leaves: Sequence[Leaves]) -> int:
        (own_leaves,) = leaves
        return int(own_leaves.state[LAST_TIME].max(initial=0)) + self.gap

    def sessions(self, leaves: Leaves) -> Int64Array:
        """The positions at which sessions begin, among leaves in order."""
        starts = run_starts(leaves.key)
        until = running_max(leaves.state[LAST_TIME], starts)
        is_start = np.zeros(len(leaves), dtype=bool)
        is_start[1:] = leaves.state[FIRST_TIME][1:] - until[:-1] > self.gap
        is_start[starts] = True
        return np.flatnonzero(is_start)

    def _joined(self, leaves: Leaves) -> Leaves:
        if self.leaf_set.per_tuple:
            return leaves
        starts = self.sessions(leaves)
        state = self.leaf_set.reduce(leaves.state, Runs.of(starts, len(leaves)))
        return Leaves(leaves.key[starts], leaves.time[starts], state)
