"""Delta windows: every valid tuple has a number and a leaf, with registers from which the next tuple continues.

The last leaf of a key is kept forever: it has the current δ, and the last trigger.
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
    """The newly finalized valid tuples `[begin, end)` of each key, and the last leaf of the key before them."""

    begin: Int64Array
    end: Int64Array
    last: Int64Array
    known: BoolArray
    """Which keys have such a leaf."""

    def before(self, column: Array, otherwise: int) -> Array:
        """The value of the last leaf of every key."""
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
        valid, deltas = self._valid(arrival.finalized, before)
        tuples = arrival.finalized.take(valid)
        is_invalid = np.ones(len(arrival.finalized), dtype=bool)
        is_invalid[valid] = False
        invalid = np.flatnonzero(is_invalid)
        if not len(tuples):
            return OperatorLeaves(self.table_of(layout, table, self.leaf_set.empty(), {}), invalid)
        run = _runs(tuples.key, before)
        rows = Rows(tuples.columns, tuples.time, None, len(tuples))
        state = self.leaf_set.lift(rows)[:_DELTA] + self._registers(deltas, run, before)
        number = positions_in_runs(run.begin, len(tuples))
        number += np.repeat(run.before(before.next_number, 0), run.end - run.begin)
        leaves = Leaves(tuples.key, number, state)
        return OperatorLeaves(self.table_of(layout, table, leaves, rows.dictionaries), invalid)

    def _valid(self, tuples: Tuples, before: Numbered) -> tuple[Int64Array, Array]:
        """The tuples whose δ is not missing and has not decreased, in the order of time and δ; and their δ."""
        column = tuples.columns.column(self.window.column)
        integers = values.is_integer(column.type)
        deltas = values.fixed_order_keys(column) if integers else values.numbers(column)
        missing = ~np.asarray(column.is_valid()) | (np.zeros(len(deltas), bool) if integers else np.isnan(deltas))
        positions = np.flatnonzero(~missing)
        key, time, deltas = tuples.key[positions], tuples.time[positions], deltas[positions]
        if not len(positions):
            return positions, deltas
        same_time = (np.diff(key) == 0) & (np.diff(time) == 0)
        if np.any(same_time & (np.diff(deltas) < 0)):  # tuples of the same time have no order among them
            order = np.lexsort((deltas, time, key))
            positions, deltas = positions[order], deltas[order]
        run = _runs(key, before)
        reached = deltas.copy()
        last_deltas = before.leaves.state[_DELTA]
        first = reached[run.begin]
        reached[run.begin] = np.where(run.known, np.maximum(first, run.before(last_deltas, 0)), first)
        valid = deltas >= running_max(reached, run.begin)
        return positions[valid], deltas[valid]

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
        triggers_so_far = total - np.repeat(total[run.begin] - is_trigger[run.begin], lengths)
        position = np.maximum.accumulate(np.where(is_trigger, np.arange(len(deltas)), 0))
        trigger_delta = np.where(triggers_so_far > 0, deltas[position], np.repeat(last_trigger, lengths))
        trigger_count = triggers_so_far + np.repeat(run.before(state[_TRIGGERS], 0), lengths)
        return deltas, trigger_delta, trigger_count, is_trigger

    def closing(self, table: PaneTable, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        (leaves,) = self.own(table)
        if not len(leaves):
            return
        numbered_leaves = Numbered(leaves)
        deltas = leaves.state[_DELTA]
        triggers = np.flatnonzero(leaves.state[_IS_TRIGGER] & (numbered_leaves.last_time >= after))
        first = numbered_leaves.of_key(numbered_leaves.starts)[triggers]
        # δ only grows, so all tuples with a smaller δ are before the trigger.
        begin = search(deltas, reach_below(deltas[triggers], self.window.size), first, triggers + 1)
        end = search(deltas, deltas[triggers], first, triggers + 1)
        filled = begin < end
        triggers, begin, end = triggers[filled], begin[filled], end[filled]
        ((model, _),) = self.windows
        answers = Answers(
            np.full(len(triggers), model),
            leaves.state[_TRIGGERS][triggers] - 1,
            leaves.key[triggers],
            numbered_leaves.first_time[begin],
            numbered_leaves.last_time[triggers],
            from_end=numbered_leaves.from_end(begin, end) if numbered else None,
        )
        yield Closing(answers, (begin, end))

    def open(self, leaves: Sequence[Leaves], watermark: int) -> list[BoolArray]:
        (own_leaves,) = leaves
        if not len(own_leaves):
            return [np.zeros(0, dtype=bool)]
        numbered = Numbered(own_leaves)
        deltas = own_leaves.state[_DELTA]
        lowest = reach_below(deltas[numbered.last], self.window.size)
        return [numbered.is_last | (deltas >= numbered.of_key(lowest))]


def _runs(key: Int64Array, before: Numbered) -> _Run:
    begin = run_starts(key)
    last, known = before.last_of(key[begin])
    return _Run(begin, np.append(begin[1:], len(key)), last, known)
