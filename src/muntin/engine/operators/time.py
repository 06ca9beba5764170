"""Time windows (SPRINGALD): which windows hold something, and what, from the panes of a shard."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Int64Array, State, expand
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
from muntin.windows import PaneWindow

Slot: TypeAlias = tuple[int, int]
"""A leaf set, and where the fields of a partial begin in it."""


@dataclass(frozen=True)
class Asked:
    """Decomposable aggregates, and what they need of each leaf set."""

    outputs: tuple[Output, ...]
    parts: tuple[Parts, ...]
    """Without what is known already."""
    slots: frozenset[Slot]
    """The same, in all sets."""
    known: frozenset[Slot]
    """What they need and is known already."""


@dataclass(frozen=True)
class TimeOperator(WindowOperator):
    """Its leaves come from the pane stage: one per (key, pane), and for each custom aggregate a set of its own."""

    @cached_property
    def models(self) -> tuple[PaneWindow, ...]:
        return tuple(window for _, window in self.windows if isinstance(window, PaneWindow))

    @cached_property
    def grid(self) -> PaneGrid:
        return PaneGrid.of(self.models)

    @cached_property
    def asked(self) -> dict[bool, Asked]:
        """What is asked for at once, and what comes later and is not known by then."""
        at_once = self._asked(False, ())
        return {False: at_once, True: self._asked(True, at_once.slots)}

    def _asked(self, lazy: bool, known: Collection[Slot]) -> Asked:
        outputs = tuple(each for each in self.outputs if each.bound.holistic is None and each.lazy == lazy)
        needed = {(number, fields.start) for output in outputs for number, fields in output.slots}
        slots = needed.difference(known)
        parts = (
            Parts.of(leaf_set, {start for at, start in slots if at == number})
            for number, leaf_set in enumerate(self.leaf_sets, self.first_set)
        )
        return Asked(outputs, tuple(parts), frozenset(slots), frozenset(needed - slots))

    @cached_property
    def incomplete_set(self) -> int | None:
        """Which of its leaf sets is that of strata of which tuples were shed, if there is one."""
        return next((number for number, leaf_set in enumerate(self.leaf_sets) if leaf_set.of_incomplete), None)

    def reader(self, table: PaneTable) -> TimeReader:
        return TimeReader(self, table)

    def leaf_ranges(self, table: PaneTable, closing: Closing) -> list[tuple[Int64Array, Int64Array]]:
        answers = closing.answers
        indexes = (LeafIndex(leaves.key, leaves.time) for leaves in self.own(table))
        return [index.ranges(answers.key, answers.start, answers.end) for index in indexes]

    def open(self, leaves: Sequence[Leaves], watermark: int) -> list[BoolArray]:
        return [last_ends(each.time, self.models) > watermark for each in leaves]

    def ends(self, leaves: Sequence[Leaves]) -> int:
        return max((int(last_ends(each.time, self.models).max()) for each in leaves if len(each)), default=0)


class TimeReader:
    """The windows of a time operator over one pane table, in window order. What was looked up stays at hand."""

    def __init__(self, operator: TimeOperator, table: PaneTable) -> None:
        self._operator = operator
        self._table = table
        self._leaves = operator.own(table)
        self._panes = self._leaves[0]
        self._indexes: dict[int, LeafIndex] = {}
        self._trees: dict[tuple[int, bool], FlatTree] = {}

    def closing(self, after: int, until: int, numbered: bool = False) -> Iterator[Closing]:
        if len(self._panes):
            yield from map(Closing, self._closing(after, until))

    def combined(self, closing: Closing) -> Iterator[Combined]:
        leaves = CombinedLeaves(self, self._operator, self._table, closing.answers)
        yield Combined(closing.answers, leaves.at_once(), leaves)

    def _closing(self, after: int, until: int) -> Iterator[Answers]:
        """The windows whose end is in `(after, until]`: time is halved until each part has few enough of them."""
        if after >= until:
            return
        ids = [_ids(window, after, until) for window in self._operator.models]
        if len(ids) == 1 and ids[0][0] == ids[0][1]:
            yield from self._only(self._operator.models[0], ids[0][0])
            return
        new = [new_windows(self._panes, *each) for each in zip(self._operator.models, ids, strict=True)]
        count = sum(int(counts.sum()) for _, counts in new)
        if count > MOST_ANSWERS:
            first, last = self._reach
            after, until = max(after, first - 1), min(until, last)
            middle = (after + until) // 2
            if middle > after:
                yield from self._closing(after, middle)
                yield from self._closing(middle, until)
                return
        if count:
            yield self._held(new)

    @cached_property
    def _reach(self) -> tuple[int, int]:
        """The end of the first and of the last window that holds any pane."""
        times = self._panes.time
        bounds = np.array([times.min(), times.max()])
        ends = []
        for window in self._operator.models:
            # Where a bound falls between windows the neighbour's end is a safe, slightly wider reach.
            ends += [
                window.end(int(window.first_containing(bounds)[0])),
                window.end(int(window.last_containing(bounds)[1])),
            ]
        return min(ends), max(ends)

    def _only(self, window: PaneWindow, window_id: int) -> Iterator[Answers]:
        """Those of a single window, as mostly where time goes on: all keys that it holds, in order."""
        ids = np.array([window_id])
        index, start, end = self._operator.windows[0][0], window.start(ids), window.end(ids)
        key = self._index(0).keys_between(int(start[0]), int(end[0]))
        if len(key):
            public_id = window.public_id(ids)
            of_keys = (each.repeat(len(key)) for each in (np.array([index]), public_id, start, end))
            model, public_id, start, end = of_keys
            yield Answers(model, public_id, key, start, end, alone=len(key) > 1)

    def _held(self, new: Sequence[tuple[Int64Array, Int64Array]]) -> Answers:
        """All windows that the leaves bring to their keys, model by model."""
        parts = []
        indices = (index for index, _ in self._operator.windows)
        for index, window, (first, count) in zip(indices, self._operator.models, new, strict=True):
            ids, leaf = expand(first, count)
            key = self._panes.key[leaf]
            parts.append((np.full(len(ids), index), window.public_id(ids), key, window.start(ids), window.end(ids)))
        model, window_id, key, start, end = map(np.concatenate, zip(*parts, strict=True))
        held = Answers(model, window_id, key, start, end)
        return held.take(np.lexsort((held.key, held.start, held.end)))

    def states(self, number: int, lazy: bool, held: LeafRanges) -> dict[int, State]:
        """The combination of each range of the leaves of one set, of the partials that are asked for, by their fields.

        Every range has a leaf.
        """
        parts, leaves = self._operator.asked[lazy].parts[number], self._leaves[number]
        if not len(held.begin):
            return {}
        runs = held.runs
        if runs.size <= len(leaves):  # a tree is for windows that share leaves
            return parts.by_field(parts.leaf_set.reduce(parts.state(leaves.state), runs))
        if (number, lazy) not in self._trees:
            panes = max(window.longest for window in self._operator.models) // self._operator.grid.length
            longest = len(leaves) if parts.leaf_set.per_tuple else panes
            self._trees[number, lazy] = FlatTree(parts.state(leaves.state), parts.leaf_set.combine, longest)
        return parts.by_field(self._trees[number, lazy].ranges(held.begin, held.end))

    def held(self, number: int, answers: Answers) -> LeafRanges:
        """The leaves of windows in one set."""
        index = self._index(number)
        if answers.alone:
            return index.of_window(answers.key, int(answers.start[0]), int(answers.end[0]))
        return index.held(answers.key, answers.start, answers.end)

    def _index(self, number: int) -> LeafIndex:
        if number not in self._indexes:
            self._indexes[number] = LeafIndex(self._leaves[number].key, self._leaves[number].time)
        return self._indexes[number]


class CombinedLeaves(LazyAggregates):
    """What the leaves of some windows come to. What was combined, or looked up, stays at hand."""

    def __init__(self, source: TimeReader, operator: TimeOperator, table: PaneTable, answers: Answers) -> None:
        self._source = source
        self._operator = operator
        self._table = table
        self._answers = answers
        self._ranges: dict[int, LeafRanges] = {}
        self._states: dict[Slot, State] = {}

    def at_once(self) -> dict[str, pa.Array]:
        """What is always asked for."""
        return self._lowered(lazy=False)

    def lowered(self) -> dict[str, pa.Array]:
        return self._lowered(lazy=True)

    def _lowered(self, lazy: bool) -> dict[str, pa.Array]:
        first = self._operator.first_set
        asked = self._operator.asked[lazy]
        for number, parts in enumerate(asked.parts):
            if parts:
                held = self._held(number)
                combined = self._source.states(number, lazy, held)
                self._states.update({(first + number, start): state for start, state in combined.items()})
        values = {}
        for output in asked.outputs:
            held = self._held(output.slots[0][0] - first)
            slots = [self._states[number, fields.start] for number, fields in output.slots] if len(held.begin) else []
            values[output.name] = lowered(output, slots, held.at, len(self._answers.key), self._table)
        return values

    def shed(self) -> Int64Array:
        assert self._operator.incomplete_set is not None
        held = self._held(self._operator.incomplete_set)
        return np.arange(len(self._answers.key)) if held.at is None else held.at

    def states(self, chosen: Int64Array) -> dict[str, tuple[State, ...]]:
        first, asked = self._operator.first_set, self._operator.asked[True]
        found = {slot: tuple(column.take(chosen) for column in self._states[slot]) for slot in asked.known}
        for number, parts in enumerate(asked.parts):
            if parts:
                held = self._held(number).of(chosen)
                combined = self._source.states(number, True, held)
                found |= {(first + number, start): state for start, state in combined.items()}
        return {
            output.name: tuple(found[number, fields.start] for number, fields in output.slots)
            for output in asked.outputs
        }

    def _held(self, number: int) -> LeafRanges:
        if number not in self._ranges:
            self._ranges[number] = self._source.held(number, self._answers)
        return self._ranges[number]


def _ids(window: PaneWindow, after: int, until: int) -> tuple[int, int]:
    """The first and the last id of the windows whose end is in `(after, until]`."""
    return window.last_ended(after) + 1, window.last_ended(until)


def new_windows(panes: Leaves, window: PaneWindow, ids: tuple[int, int]) -> tuple[Int64Array, Int64Array]:
    """For every leaf, the first window of those from the first to the last id that it brings to its key, and how many.

    A leaf is in windows `first_containing … last_containing`; both grow along the panes of a key, so what the leaf
    before it has not brought yet is a range, too. Every window that holds something is counted once, and windows
    that hold nothing are never looked at, however many there are.
    """
    upper = np.minimum(window.last_containing(panes.time), ids[1])
    lower = np.maximum(window.first_containing(panes.time), ids[0])
    same_key = panes.key[1:] == panes.key[:-1]
    lower[1:] = np.maximum(lower[1:], np.where(same_key, upper[:-1] + 1, lower[1:]))
    return lower, np.maximum(upper - lower + 1, 0)
