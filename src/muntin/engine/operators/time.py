"""Time windows (SPRINGALD): which windows have tuples, and their aggregates, from the panes of a shard."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Int64Array, State, all_true, expand, stable_order
from muntin.engine.operators.leaf_index import LeafIndex, LeafRanges
from muntin.engine.operators.operator import (
    MOST_ANSWERS,
    Answers,
    Closing,
    Combined,
    LazyAggregates,
    Output,
    WindowOperator,
    lowered,
)
from muntin.engine.operators.parts import Parts
from muntin.panes.grid import PaneGrid, last_ends
from muntin.panes.table import Leaves, PaneTable
from muntin.tree import FlatTree
from muntin.tree.doubling import doubled_ranges
from muntin.windows import CumulativeWindow, PaneWindow, TimeWindow

Slot: TypeAlias = tuple[int, int]
"""A leaf set, and the index at which a partial's fields begin in it."""


@dataclass(frozen=True)
class RequestedPartials:
    """Decomposable aggregates, and the partials that they need of each leaf set."""

    outputs: tuple[Output, ...]
    parts: tuple[Parts, ...]
    """Without those that are known already."""
    slots: frozenset[Slot]
    """The slots of these parts."""
    known: frozenset[Slot]
    """Needed slots that are known already."""


MANY = 2
"""From one window on per this many leaves, neighbouring nodes are combined, and no tree is built."""


@dataclass(frozen=True)
class FoundWindows(Closing):
    """Windows with their panes, which are known as they were found by them."""

    ranges: LeafRanges = field(kw_only=True)


@dataclass(frozen=True)
class TimeOperator(WindowOperator):
    """Its leaves come from the map stage: one per (key, pane), and a separate set for each custom aggregate."""

    @cached_property
    def models(self) -> tuple[PaneWindow, ...]:
        return tuple(window for _, window in self.windows if isinstance(window, PaneWindow))

    @cached_property
    def grid(self) -> PaneGrid:
        return PaneGrid.of(self.models)

    def panes(self, times: Int64Array) -> Int64Array:
        """The number of the pane that contains each time."""
        return np.floor_divide(times - self.grid.offset, self.grid.length)

    def first_open(self, watermark: int) -> int:
        """The start of the first window that is open at a watermark: no window needs an earlier pane."""
        return min(window.start(window.last_ended(watermark) + 1) for window in self.models)

    @cached_property
    def lives(self) -> bool:
        """Whether its windows can be answered from a tree that lives from batch to batch."""
        is_split = any(not isinstance(window, TimeWindow | CumulativeWindow) for window in self.models)
        return not is_split and self.incomplete_set is None and not self.requested[True].outputs

    @cached_property
    def requested(self) -> dict[bool, RequestedPartials]:
        """The partials of eager aggregates (False), and those of lazy ones (True), without what is known by then."""
        eager = self._requested(False, ())
        return {False: eager, True: self._requested(True, eager.slots)}

    def _requested(self, lazy: bool, known: Collection[Slot]) -> RequestedPartials:
        outputs = tuple(output for output in self.outputs if output.bound.holistic is None and output.lazy == lazy)
        needed = {(number, fields.start) for output in outputs for number, fields in output.slots}
        slots = needed.difference(known)
        parts = (
            Parts.of(leaf_set, {start for set_number, start in slots if set_number == number})
            for number, leaf_set in enumerate(self.leaf_sets, self.first_set)
        )
        return RequestedPartials(outputs, tuple(parts), frozenset(slots), frozenset(needed - slots))

    @cached_property
    def incomplete_set(self) -> int | None:
        """The number of the leaf set of incomplete strata, whose tuples were partly dropped; None if there is none."""
        return next((number for number, leaf_set in enumerate(self.leaf_sets) if leaf_set.of_incomplete), None)

    def reader(self, table: PaneTable) -> TimeReader:
        return TimeReader(self, table)

    def leaf_ranges(self, table: PaneTable, closing: Closing) -> list[tuple[Int64Array, Int64Array]]:
        answers = closing.answers
        indexes = (LeafIndex(leaves.key, leaves.time) for leaves in self.own(table))
        return [index.ranges(answers.key, answers.start, answers.end) for index in indexes]

    def open(self, leaves: Sequence[Leaves], watermark: int) -> list[BoolArray]:
        return [last_ends(leaves_of_set.time, self.models) > watermark for leaves_of_set in leaves]

    def ends(self, leaves: Sequence[Leaves]) -> int:
        filled = [leaves_of_set for leaves_of_set in leaves if len(leaves_of_set)]
        return max((int(last_ends(leaves_of_set.time, self.models).max()) for leaves_of_set in filled), default=0)


class TimeReader:
    """The windows of a time operator over one pane table, in window order. It caches its lookups."""

    def __init__(self, operator: TimeOperator, table: PaneTable) -> None:
        self._operator = operator
        self._table = table
        self._leaves = operator.own(table)
        self._panes = self._leaves[0]
        self._indexes: dict[int, LeafIndex] = {}
        self._trees: dict[tuple[int, bool], FlatTree] = {}

    def closing(self, after: int, until: int, numbered: bool = False) -> Iterator[Closing]:
        if len(self._panes):
            yield from self._closing(after, until, self._panes, None)

    def combined(self, closing: Closing) -> Iterator[Combined]:
        known = {0: closing.ranges} if isinstance(closing, FoundWindows) else {}
        leaves = CombinedLeaves(self, self._operator, self._table, closing.answers, known)
        yield Combined(closing.answers, leaves.eager(), leaves)

    def _closing(self, after: int, until: int, panes: Leaves, positions: Int64Array | None) -> Iterator[Closing]:
        """The windows whose end is in `(after, until]`. The interval is halved until its parts have few.

        `panes` are those that these windows may contain, and `positions` where these are among all; None for all.
        """
        if after >= until or not len(panes):
            return
        ids = [_ids(window, after, until) for window in self._operator.models]
        if len(ids) == 1 and ids[0][0] == ids[0][1]:
            yield from self._single_window(self._operator.models[0], ids[0][0])
            return
        new = [new_windows(panes, *model) for model in zip(self._operator.models, ids, strict=True)]
        count = sum(int(counts.sum()) for _, counts in new)
        if count > MOST_ANSWERS and any(first < last for first, last in ids):
            first, last = self._end_range
            after, until = max(after, first - 1), min(until, last)
            middle = (after + until) // 2
            if middle > after:
                longest = max(window.longest for window in self._operator.models)
                for begin, end in ((after, middle), (middle, until)):
                    near = np.flatnonzero((panes.time >= begin - longest) & (panes.time < end))
                    near_panes = Leaves(panes.key[near], panes.time[near], ())
                    yield from self._closing(begin, end, near_panes, near if positions is None else positions[near])
                return
        if count:
            yield self._found(new, ids, panes, positions)

    @cached_property
    def _end_range(self) -> tuple[int, int]:
        """The ends of the first and of the last window that contains any pane."""
        times = self._panes.time
        bounds = np.array([times.min(), times.max()])
        ends = []
        for window in self._operator.models:
            # Where a bound falls between windows, the neighbour's end is a safe, slightly wider bound.
            ends += [
                window.end(int(window.first_containing(bounds)[0])),
                window.end(int(window.last_containing(bounds)[1])),
            ]
        return min(ends), max(ends)

    def _single_window(self, window: PaneWindow, window_id: int) -> Iterator[Closing]:
        """The answers of a single window, for all keys in it, in order: the common case in a stream."""
        ids = np.array([window_id])
        index, start, end = self._operator.windows[0][0], window.start(ids), window.end(ids)
        key = self._index(0).keys_between(int(start[0]), int(end[0]))
        if len(key):
            public_id = window.public_id(ids)
            model, public_id, start, end = (
                column.repeat(len(key)) for column in (np.array([index]), public_id, start, end)
            )
            yield Closing(Answers(model, public_id, key, start, end, alone=len(key) > 1))

    def _found(
        self,
        new: Sequence[tuple[Int64Array, Int64Array]],
        ids: Sequence[tuple[int, int]],
        panes: Leaves,
        positions: Int64Array | None,
    ) -> FoundWindows:
        """All new windows of the leaves, see `new_windows`, in window order."""
        parts, edges = [], []
        indices = (index for index, _ in self._operator.windows)
        for index, window, (first, count), of_model in zip(indices, self._operator.models, new, ids, strict=True):
            numbers, leaf = expand(first, count)
            key = panes.key[leaf]
            parts.append(
                (
                    np.full(len(numbers), index),
                    window.public_id(numbers),
                    key,
                    window.start(numbers),
                    window.end(numbers),
                )
            )
            edges.append((leaf, np.arange(len(panes)).repeat(last_windows(panes, window, of_model)) + 1))
        model, window_id, key, start, end = map(_joined, zip(*parts, strict=True))
        begin_leaf, end_leaf = map(_joined, zip(*edges, strict=True))
        order = _order_by_id(numbers) if len(new) == 1 else stable_order(key, start, end)
        cover = bool(end_leaf[-1] == len(panes)) and begin_leaf[0] == 0 and all_true(begin_leaf[1:] == end_leaf[:-1])
        ranges = LeafRanges(None, begin_leaf, end_leaf, cover, order, positions)
        return FoundWindows(Answers(model, window_id, key, start, end).take(order), ranges=ranges)

    def states(self, number: int, lazy: bool, ranges: LeafRanges) -> dict[int, State]:
        """The requested partials of one set, combined over each range of its leaves, by where their fields begin.

        No range is empty.
        """
        parts, leaves = self._operator.requested[lazy].parts[number], self._leaves[number]
        if not len(ranges.begin):
            return {}
        state, runs = parts.state(leaves.state), ranges.runs
        if ranges.among is not None:
            state = tuple(column[ranges.among] for column in state)
        count = len(state[0])
        if runs.size <= count:  # a tree only pays for windows that share leaves
            combined = parts.leaf_set.reduce(state, runs)
        elif MANY * len(ranges.begin) >= count:
            combined = doubled_ranges(state, parts.leaf_set.combine, ranges.begin, ranges.end)
        else:
            combined = self._tree(number, lazy, ranges.among is None, state).ranges(ranges.begin, ranges.end)
        if ranges.order is not None:
            combined = tuple(column[ranges.order] for column in combined)
        return parts.by_field(combined)

    def _tree(self, number: int, lazy: bool, of_all: bool, state: State) -> FlatTree:
        """The tree over some leaves; that over all of them is cached."""
        if of_all and (number, lazy) in self._trees:
            return self._trees[number, lazy]
        leaf_set = self._operator.requested[lazy].parts[number].leaf_set
        panes = self._operator.grid.most_in(max(window.longest for window in self._operator.models))
        tree = FlatTree(state, leaf_set.combine, len(state[0]) if leaf_set.per_tuple else panes)
        if of_all:
            self._trees[number, lazy] = tree
        return tree

    def leaf_ranges(self, number: int, answers: Answers) -> LeafRanges:
        """The leaves of the windows in one set."""
        index = self._index(number)
        if answers.alone:
            return index.of_window(answers.key, int(answers.start[0]), int(answers.end[0]))
        return index.filled_ranges(answers.key, answers.start, answers.end)

    def _index(self, number: int) -> LeafIndex:
        if number not in self._indexes:
            self._indexes[number] = LeafIndex(self._leaves[number].key, self._leaves[number].time)
        return self._indexes[number]


class CombinedLeaves(LazyAggregates):
    """The combined leaves of some windows. It caches what was combined or looked up."""

    def __init__(
        self,
        source: TimeReader,
        operator: TimeOperator,
        table: PaneTable,
        answers: Answers,
        known: Mapping[int, LeafRanges],
    ) -> None:
        """`known` are the leaves of the windows in some of the sets."""
        self._source = source
        self._operator = operator
        self._table = table
        self._answers = answers
        self._ranges = dict(known)
        self._states: dict[Slot, State] = {}

    def eager(self) -> dict[str, pa.Array]:
        """The aggregates that are not lazy."""
        return self._lowered(lazy=False)

    def lowered(self) -> dict[str, pa.Array]:
        return self._lowered(lazy=True)

    def _lowered(self, lazy: bool) -> dict[str, pa.Array]:
        first = self._operator.first_set
        requested = self._operator.requested[lazy]
        for number, parts in enumerate(requested.parts):
            if parts:
                combined = self._source.states(number, lazy, self._leaf_ranges(number))
                self._states.update({(first + number, start): state for start, state in combined.items()})
        values = {}
        for output in requested.outputs:
            ranges = self._leaf_ranges(output.slots[0][0] - first)
            slots = [self._states[number, fields.start] for number, fields in output.slots] if len(ranges.begin) else []
            values[output.name] = lowered(output, slots, ranges.windows, len(self._answers.key), self._table)
        return values

    def incomplete(self) -> Int64Array:
        assert self._operator.incomplete_set is not None
        windows = self._leaf_ranges(self._operator.incomplete_set).windows
        return np.arange(len(self._answers.key)) if windows is None else windows

    def states(self, positions: Int64Array) -> dict[str, tuple[State, ...]]:
        first, requested = self._operator.first_set, self._operator.requested[True]
        states = {slot: tuple(column.take(positions) for column in self._states[slot]) for slot in requested.known}
        for number, parts in enumerate(requested.parts):
            if parts:
                combined = self._source.states(number, True, self._leaf_ranges(number).of(positions))
                states |= {(first + number, start): state for start, state in combined.items()}
        return {
            output.name: tuple(states[number, fields.start] for number, fields in output.slots)
            for output in requested.outputs
        }

    def _leaf_ranges(self, number: int) -> LeafRanges:
        if number not in self._ranges:
            self._ranges[number] = self._source.leaf_ranges(number, self._answers)
        return self._ranges[number]


def _ids(window: PaneWindow, after: int, until: int) -> tuple[int, int]:
    """The first and the last id of the windows whose end is in `(after, until]`."""
    return window.last_ended(after) + 1, window.last_ended(until)


def new_windows(panes: Leaves, window: PaneWindow, ids: tuple[int, int]) -> tuple[Int64Array, Int64Array]:
    """For every leaf, the windows that contain it and no earlier leaf of its key: the first id, and how many.

    Only windows from the first to the last of `ids` count. A leaf is in windows `first_containing … last_containing`.
    Both grow along the panes of a key, so its new windows are consecutive. Every window with tuples is counted once,
    and empty windows cost nothing, however many there are.
    """
    upper = np.minimum(window.last_containing(panes.time), ids[1])
    lower = np.maximum(window.first_containing(panes.time), ids[0])
    same_key = panes.key[1:] == panes.key[:-1]
    lower[1:] = np.maximum(lower[1:], np.where(same_key, upper[:-1] + 1, lower[1:]))
    return lower, np.maximum(upper - lower + 1, 0)


def last_windows(panes: Leaves, window: PaneWindow, ids: tuple[int, int]) -> Int64Array:
    """For every leaf, how many windows contain it and no later leaf of its key.

    Per key, these are the new windows of `new_windows`, in the same order.
    """
    upper = np.minimum(window.last_containing(panes.time), ids[1])
    lower = np.maximum(window.first_containing(panes.time), ids[0])
    same_key = panes.key[1:] == panes.key[:-1]
    upper[:-1] = np.minimum(upper[:-1], np.where(same_key, lower[1:] - 1, upper[:-1]))
    count: Int64Array = np.maximum(upper - lower + 1, 0)
    return count


def _joined(parts: Sequence[Int64Array]) -> Int64Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _order_by_id(ids: Int64Array) -> Int64Array:
    """The stable order of the windows of one model by their ids."""
    first = int(ids.min())
    if int(ids.max()) - first < 1 << 16:
        order: Int64Array = (ids - first).astype(np.uint16).argsort(kind="stable")  # linear for 16 bits
        return order
    return stable_order(ids)
