"""From the panes of a shard to the answers of its windows: which windows hold something, and what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array, State
from muntin.panes.table import Leaves, PaneTable
from muntin.plan import Plan
from muntin.tree import FlatTree
from muntin.windows import TimeWindow

MOST_ANSWERS = 1 << 20
"""How many windows of keys are answered at once: what bounds the memory of a batch that closes very many."""


@dataclass(frozen=True)
class Answers:
    """Windows of keys, one per position: the model (an index into the plan's windows), the id and the key's code."""

    model: Int64Array
    window: Int64Array
    key: Int64Array
    start: Int64Array
    end: Int64Array


class WindowAnswers:
    """Answers every window over one pane table, in window order."""

    def __init__(self, plan: Plan, table: PaneTable) -> None:
        self._plan = plan
        self._table = table

    def between(self, after: int, until: int) -> Iterator[pa.RecordBatch]:
        """Results of the windows whose end is after `after` and not after `until`."""
        first, last = self._reach()
        yield from self._slices(max(after, first - 1), min(until, last))

    def all(self) -> Iterator[pa.RecordBatch]:
        first, last = self._reach()
        yield from self._slices(first - 1, last)

    def _reach(self) -> tuple[int, int]:
        """The end of the first and of the last window that holds any pane."""
        times = self._table.panes.time
        bounds = np.array([times.min(), times.max()])
        ends = []
        for window in self._plan.windows:
            # Where a bound falls between windows the neighbour's end is a safe, slightly wider reach.
            ends += [
                window.end(int(window.first_containing(bounds)[0])),
                window.end(int(window.last_containing(bounds)[1])),
            ]
        return min(ends), max(ends)

    def _slices(self, after: int, until: int) -> Iterator[pa.RecordBatch]:
        """Halve the time until each slice has few enough answers; earlier slices come first."""
        if after >= until:
            return
        count = sum(
            len_of_held(self._table.panes, window, *_ids(window, after, until)) for window in self._plan.windows
        )
        if count == 0:
            return
        middle = (after + until) // 2
        if count > MOST_ANSWERS and middle > after:
            yield from self._slices(after, middle)
            yield from self._slices(middle, until)
        else:
            yield self._answer(after, until)

    def _answer(self, after: int, until: int) -> pa.RecordBatch:
        answers = self._held(after, until)
        states = []
        for index, tree in zip(self._indexes, self._trees, strict=True):
            begin, end = index.ranges(answers.key, answers.start, answers.end)
            held = None if np.all(begin < end) else np.flatnonzero(begin < end)
            if held is not None:
                begin, end = begin[held], end[held]
            states.append((tree.ranges(begin, end) if len(begin) else (), held))
        return self._batch(answers, states)

    def _held(self, after: int, until: int) -> Answers:
        parts = []
        for index, window in enumerate(self._plan.windows):
            key, ids = held_windows(self._table.panes, window, *_ids(window, after, until))
            start = ids * window.slide + window.offset
            parts.append((np.full(len(ids), index), ids, key, start, start + window.size))
        model, ids, key, start, end = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.lexsort((key, start, end))
        return Answers(model[order], ids[order], key[order], start[order], end[order])

    def _batch(self, answers: Answers, states: list[tuple[State, Int64Array | None]]) -> pa.RecordBatch:
        plan, schema = self._plan, self._plan.result_schema
        time = plan.types[plan.time]
        bounds = [pa.array(edge).cast(time) for edge in (answers.start, answers.end)]
        columns: list[pa.Array] = [
            pa.StructArray.from_arrays(bounds, fields=list(schema.field("window").type)),
            pa.array(answers.window),
        ]
        if len(plan.windows) > 1:
            titles = pa.array([window.title for window in plan.windows])
            columns.append(titles.take(pa.array(answers.model)))
        chosen = pa.array(answers.key)
        columns += [self._table.keys.column(key).take(chosen) for key in plan.keys]
        for output in plan.outputs:
            held = states[output.slots[0][0]][1]
            parts = [states[leaf_set][0][fields] for leaf_set, fields in output.slots]
            if held is not None and not len(held):
                columns.append(pa.nulls(len(answers.key), output.bound.result))
                continue
            values = output.bound.lower(parts, self._table.dictionaries).cast(output.bound.result)
            if held is not None:  # some windows hold no tuple that counts for this aggregate
                where = np.full(len(answers.key), -1)
                where[held] = np.arange(len(held))
                values = values.take(pa.array(where, mask=where < 0))
            columns.append(values)
        if plan.late_row is not None:
            columns.append(pa.nulls(len(answers.key), plan.late_row))
        return pa.record_batch(columns, schema=schema)

    @cached_property
    def _indexes(self) -> list[LeafIndex]:
        return [LeafIndex(leaves) for leaves in self._table.leaves]

    @cached_property
    def _trees(self) -> list[FlatTree]:
        trees = []
        for leaf_set, leaves in zip(self._plan.layout.leaf_sets, self._table.leaves, strict=True):
            panes = max(window.size // self._plan.grid.length for window in self._plan.windows)
            longest = len(leaves) if leaf_set.per_tuple else panes
            trees.append(FlatTree(leaves.state, leaf_set.combine, longest))
        return trees


def _ids(window: TimeWindow, after: int, until: int) -> tuple[int, int]:
    """The first and the last id of the windows whose end is in `(after, until]`."""
    return window.last_ended(after) + 1, window.last_ended(until)


def _new_windows(panes: Leaves, window: TimeWindow, first: int, last: int) -> tuple[Int64Array, Int64Array]:
    """For every leaf, the first window that it brings to its key, and how many.

    A leaf is in windows `first_containing … last_containing`; both grow along the panes of a key, so what the leaf
    before it has not brought yet is a range, too. Every window that holds something is counted once, and windows
    that hold nothing are never looked at, however many there are.
    """
    upper = np.minimum(window.last_containing(panes.time), last)
    lower = np.maximum(window.first_containing(panes.time), first)
    same_key = panes.key[1:] == panes.key[:-1]
    np.maximum(lower[1:], upper[:-1] + 1, out=lower[1:], where=same_key)
    return lower, np.maximum(upper - lower + 1, 0)


def len_of_held(panes: Leaves, window: TimeWindow, first: int, last: int) -> int:
    return int(_new_windows(panes, window, first, last)[1].sum()) if first <= last else 0


def held_windows(panes: Leaves, window: TimeWindow, first: int, last: int) -> tuple[Int64Array, Int64Array]:
    """The (key, window id) pairs with `first <= id <= last` that hold at least one tuple."""
    if first > last:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    lower, count = _new_windows(panes, window, first, last)
    ends = np.cumsum(count)
    steps = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - count, count)
    return np.repeat(panes.key, count), np.repeat(lower, count) + steps


class LeafIndex:
    """Finds the leaves of a key between two times."""

    def __init__(self, leaves: Leaves) -> None:
        time = leaves.time
        self._first, self._last = (int(time.min()), int(time.max())) if len(time) else (0, 0)
        span = self._last - self._first + 2
        keys = int(leaves.key.max()) + 1 if len(time) else 0
        # Key and time in one integer; where they do not fit, the time's rank does.
        self._times = None if (keys + 1) * span < 1 << 62 else np.unique(time)
        self._span = span if self._times is None else len(self._times) + 1
        self._order = self._composite(leaves.key, time)

    def ranges(self, key: Int64Array, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The leaves `[begin, end)` of each key with a time in `[start, end)`."""
        return (
            np.searchsorted(self._order, self._composite(key, start)),
            np.searchsorted(self._order, self._composite(key, end)),
        )

    def _composite(self, key: Int64Array, time: Int64Array) -> Int64Array:
        clipped = np.clip(time, self._first, self._last + 1)
        rank = clipped - self._first if self._times is None else np.searchsorted(self._times, clipped)
        return key * self._span + rank
