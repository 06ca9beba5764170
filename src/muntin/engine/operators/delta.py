"""Delta windows: every valid tuple has a number and a leaf, with registers from which the next tuple continues.

The last leaf of a key is kept until the key is forgotten: it has the current δ, and the last trigger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, BoolArray, Int64Array, run_starts, running_max, search
from muntin.engine.operators.numbered import Numbered, Numbers, begun_by_time
from muntin.engine.operators.operator import Answers, Arrival, Closing, OperatorLeaves, TupleOperator
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
    """The newly finalized tuples `[begin, end)` of each run, and the last leaf of the run before them."""

    begin: Int64Array
    end: Int64Array
    last: Int64Array
    known: BoolArray
    """Which runs have such a leaf."""

    def before(self, column: Array, otherwise: int) -> Array:
        """The value of the last leaf of every run."""
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
        before = Numbered(self.own(table)[0], self.window.forget_after)
        valid, deltas, begins = self._valid(arrival.finalized, before)
        tuples = arrival.finalized.take(valid)
        is_invalid = np.ones(len(arrival.finalized), dtype=bool)
        is_invalid[valid] = False
        invalid = np.flatnonzero(is_invalid)
        if not len(tuples):
            return OperatorLeaves(self.table_of(layout, table, self.leaf_set.empty(), {}), invalid)
        run = _runs(tuples.key, before, begins)
        rows = Rows(tuples.columns, tuples.time, None, len(tuples))
        numbers = Numbers.of(tuples.key, tuples.time, before, begins)
        state = numbers.noted(self.leaf_set.lift(rows))[:_DELTA] + self._registers(deltas, run, before)
        leaves = Leaves(tuples.key, numbers.number, state)
        return OperatorLeaves(self.table_of(layout, table, leaves, rows.dictionaries), invalid)

    def _valid(self, tuples: Tuples, before: Numbered) -> tuple[Int64Array, Array, BoolArray | None]:
        """The tuples whose δ is not missing and has not decreased, in the order of time and δ; and their δ.

        Where keys are forgotten, also which of them begin a run.
        """
        column = tuples.columns.column(self.window.column)
        integers = values.is_integer(column.type)
        deltas = values.fixed_order_keys(column) if integers else values.numbers(column)
        missing = ~np.asarray(column.is_valid()) | (np.zeros(len(deltas), bool) if integers else np.isnan(deltas))
        positions = np.flatnonzero(~missing)
        key, time, deltas = tuples.key[positions], tuples.time[positions], deltas[positions]
        if not len(positions):
            return positions, deltas, None
        same_time = (np.diff(key) == 0) & (np.diff(time) == 0)
        if np.any(same_time & (np.diff(deltas) < 0)):  # tuples of the same time have no order among them
            order = np.lexsort((deltas, time, key))
            positions, deltas = positions[order], deltas[order]
        if before.forget_after is None:
            valid = _grown(deltas, _runs(key, before), before)
            return positions[valid], deltas[valid], None
        valid, begins = _grown_in_runs(key, time, deltas, before, before.forget_after)
        return positions[valid], deltas[valid], begins[valid]

    def _registers(self, deltas: Array, run: _Run, before: Numbered) -> tuple[Array, ...]:
        state = before.leaves.state
        last_trigger = run.before(state[_TRIGGER_DELTA], 0)
        after = search(deltas, reach_above(last_trigger, self.window.slide), run.begin, run.end, side="right")
        # The first tuple of a run is its first trigger.
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
        numbered_leaves = Numbered(leaves, self.window.forget_after)
        deltas = leaves.state[_DELTA]
        triggers = np.flatnonzero(leaves.state[_IS_TRIGGER] & (numbered_leaves.last_time >= after))
        first = numbered_leaves.of_run(numbered_leaves.starts)[triggers]
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
        numbered = Numbered(own_leaves, self.window.forget_after)
        deltas = own_leaves.state[_DELTA]
        lowest = reach_below(deltas[numbered.last], self.window.size)
        return [numbered.that_go_on(numbered.is_last | (deltas >= numbered.of_run(lowest)), watermark)]


def _runs(key: Int64Array, before: Numbered, begins: BoolArray | None = None) -> _Run:
    """The runs of tuples: those of a key, or parts of them where tuples begin a run."""
    starts = run_starts(key)
    if begins is None:
        last, known = before.last_of(key[starts])
        return _Run(starts, np.append(starts[1:], len(key)), last, known)
    is_start = begins.copy()
    is_start[starts] = True
    starts = np.flatnonzero(is_start)
    last, known = before.last_of(key[starts])
    return _Run(starts, np.append(starts[1:], len(key)), last, known & ~begins[starts])


def _grown(deltas: Array, run: _Run, before: Numbered) -> BoolArray:
    """The tuples whose δ is not smaller than an earlier one of their run."""
    reached = deltas.copy()
    first = reached[run.begin]
    reached[run.begin] = np.where(run.known, np.maximum(first, run.before(before.leaves.state[_DELTA], 0)), first)
    return np.asarray(deltas >= running_max(reached, run.begin))


def _grown_in_runs(
    key: Int64Array, time: Int64Array, deltas: Array, before: Numbered, forget_after: int
) -> tuple[BoolArray, BoolArray]:
    """The same where keys are forgotten, and which tuples begin a run: those that come so long after a valid one."""
    key_starts = run_starts(key)
    last, known = before.last_of(key[key_starts])
    begins = begun_by_time(key_starts, time, last, known, before)
    run = _runs(key, before, begins)
    valid = _grown(deltas, run, before)
    # The time of the last valid tuple of the run before each.
    position = np.maximum.accumulate(np.where(valid, np.arange(len(key)), -1))
    of_run = np.repeat(run.begin, run.end - run.begin)
    earlier = np.append(-1, position[:-1])
    since = np.where(earlier >= of_run, time[earlier], np.repeat(run.before(before.last_time, 0), run.end - run.begin))
    forgotten = ~begins & (time - since >= forget_after)
    for index in np.unique(np.searchsorted(run.begin, np.flatnonzero(forgotten), side="right") - 1).tolist():
        # So long without a valid tuple, though there were others: each run decides where the next one begins.
        tuples = slice(int(run.begin[index]), int(run.end[index]))
        state = (before.leaves.state[_DELTA], before.last_time)
        carried = [column[run.last[index]].item() for column in state] if run.known[index] else None
        _split(time[tuples], deltas[tuples], carried, forget_after, valid[tuples], begins[tuples])
    return valid, begins


def _split(
    time: Int64Array,
    deltas: Array,
    carried: list[float] | None,
    forget_after: int,
    valid: BoolArray,
    begins: BoolArray,
) -> None:
    """Set what is valid, and what begins a run, tuple by tuple. `carried` are the δ and the time of the last leaf."""
    reached, since = carried if carried is not None else (None, 0)
    for position, (now, delta) in enumerate(zip(time.tolist(), deltas.tolist(), strict=True)):
        begins[position] = reached is None or now - since >= forget_after
        valid[position] = begins[position] or delta >= reached
        if valid[position]:
            reached, since = delta, now
