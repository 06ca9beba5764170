"""Delta windows: every good tuple has a number and a leaf, and beside it what the next one needs to know.

The last leaf of a key is kept for ever: it knows how far δ has grown, and which trigger was the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, BoolArray, Int64Array, positions_in_runs, run_starts, running_max, search
from muntin.engine.operators.operator import Answers, Arrival, Closing, OperatorLeaves, TupleOperator
from muntin.engine.operators.ordered import Numbered
from muntin.engine.operators.partials import Registers
from muntin.panes.table import Layout, Leaves, PaneTable
from muntin.panes.tuples import Tuples
from muntin.partials import values
from muntin.partials.rows import Rows
from muntin.windows import DeltaWindow
from muntin.windows.delta import reach_above, reach_below

_DELTA, _TRIGGER_DELTA, _TRIGGERS, _IS_TRIGGER = range(-4, 0)


def delta_registers(kind: pa.DataType) -> Registers:
    """δ itself, δ of the last trigger so far, how many triggers there were, and whether this tuple is one."""
    number = "int64" if values.is_integer(kind) else "float64"
    return Registers(None, (number, number, "int64", "bool"))


@dataclass(frozen=True)
class _Run:
    """The newly settled good tuples of each key: `[begin, end)`, and the last leaf of the key before them."""

    begin: Int64Array
    end: Int64Array
    last: Int64Array
    known: BoolArray

    def before(self, column: Array, otherwise: int) -> Array:
        """What the last leaf says, for every key."""
        if not self.known.any():
            return np.full(len(self.begin), otherwise, dtype=column.dtype)
        return np.where(self.known, column[self.last], column.dtype.type(otherwise))


@dataclass(frozen=True)
class DeltaOperator(TupleOperator):
    needs_order = True

    @property
    def window(self) -> DeltaWindow:
        ((_, window),) = self.windows
        assert isinstance(window, DeltaWindow)
        return window

    def ingest_tuples(self, layout: Layout, table: PaneTable, arrival: Arrival) -> OperatorLeaves | None:
        if not len(arrival.finalized):
            return None
        before = Numbered(self.own(table)[0])
        good, deltas = self._good(arrival.finalized, before)
        tuples = arrival.finalized.take(good)
        is_bad = np.ones(len(arrival.finalized), dtype=bool)
        is_bad[good] = False
        bad = np.flatnonzero(is_bad)
        if not len(tuples):
            return OperatorLeaves(self.table_of(layout, table, self.leaf_set.empty(), {}), bad)
        run = _runs(tuples.key, before)
        rows = Rows(tuples.columns, tuples.time, None, len(tuples))
        state = self.leaf_set.lift(rows)[:_DELTA] + self._registers(deltas, run, before)
        number = positions_in_runs(run.begin, len(tuples))
        number += np.repeat(run.before(before.behind, 0), run.end - run.begin)
        leaves = Leaves(tuples.key, number, state)
        return OperatorLeaves(self.table_of(layout, table, leaves, rows.dictionaries), bad)

    def _good(self, tuples: Tuples, before: Numbered) -> tuple[Int64Array, Array]:
        """The tuples whose δ is there and has not decreased, in the order of time and δ; and their δ."""
        column = tuples.columns.column(self.window.column)
        integers = values.is_integer(column.type)
        deltas = values.fixed_order_keys(column) if integers else values.numbers(column)
        missing = ~np.asarray(column.is_valid()) | (np.zeros(len(deltas), bool) if integers else np.isnan(deltas))
        at = np.flatnonzero(~missing)
        key, time, deltas = tuples.key[at], tuples.time[at], deltas[at]
        if not len(at):
            return at, deltas
        same_time = (np.diff(key) == 0) & (np.diff(time) == 0)
        if np.any(same_time & (np.diff(deltas) < 0)):  # of tuples of one time, none comes before another of them
            order = np.lexsort((deltas, time, key))
            at, deltas = at[order], deltas[order]
        run = _runs(key, before)
        reached = deltas.copy()
        grown = before.leaves.state[_DELTA]
        first = reached[run.begin]
        reached[run.begin] = np.where(run.known, np.maximum(first, run.before(grown, 0)), first)
        good = deltas >= running_max(reached, run.begin)
        return at[good], deltas[good]

    def _registers(self, deltas: Array, run: _Run, before: Numbered) -> tuple[Array, ...]:
        state = before.leaves.state
        last_trigger = run.before(state[_TRIGGER_DELTA], 0)
        after = search(deltas, reach_above(last_trigger, self.window.slide), run.begin, run.end, side="right")
        # The first tuple of a key is its first trigger.
        triggers = self.window.triggers(deltas, run.begin, run.end, np.where(run.known, after, run.begin))
        is_trigger = np.zeros(len(deltas), dtype=bool)
        is_trigger[triggers] = True
        lengths = run.end - run.begin
        total = np.cumsum(is_trigger)
        since = total - np.repeat(total[run.begin] - is_trigger[run.begin], lengths)
        position = np.maximum.accumulate(np.where(is_trigger, np.arange(len(deltas)), 0))
        trigger_delta = np.where(since > 0, deltas[position], np.repeat(last_trigger, lengths))
        return deltas, trigger_delta, since + np.repeat(run.before(state[_TRIGGERS], 0), lengths), is_trigger

    def closing(self, table: PaneTable, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        (leaves,) = self.own(table)
        if not len(leaves):
            return
        own = Numbered(leaves)
        deltas = leaves.state[_DELTA]
        at = np.flatnonzero(leaves.state[_IS_TRIGGER] & (own.last_time >= after))
        first = own.of_key(own.starts)[at]
        # δ only grows, so the tuples below the trigger's are before it.
        begin = search(deltas, reach_below(deltas[at], self.window.size), first, at + 1)
        end = search(deltas, deltas[at], first, at + 1)
        held = begin < end
        at, begin, end = at[held], begin[held], end[held]
        ((model, _),) = self.windows
        answers = Answers(
            np.full(len(at), model),
            leaves.state[_TRIGGERS][at] - 1,
            leaves.key[at],
            own.first_time[begin],
            own.last_time[at],
            from_end=own.from_end(begin, end) if numbered else None,
        )
        yield Closing(answers, (begin, end))

    def open(self, leaves: Sequence[Leaves], watermark: int) -> list[BoolArray]:
        (own,) = leaves
        if not len(own):
            return [np.zeros(0, dtype=bool)]
        numbered = Numbered(own)
        deltas = own.state[_DELTA]
        least = reach_below(deltas[numbered.last], self.window.size)
        return [numbered.is_last | (deltas >= numbered.of_key(least))]


def _runs(key: Int64Array, before: Numbered) -> _Run:
    begin = run_starts(key)
    last, known = before.last_of(key[begin])
    return _Run(begin, np.append(begin[1:], len(key)), last, known)
