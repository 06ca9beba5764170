"""The trees of a shard that live from batch to batch, with the panes of all keys in rings: SPRINGALD's B-PAT.

They belong to one pane table: that of the batch which they went through last. A batch takes both out of the worker's
memory, adds what arrived, answers from the trees, and returns them with its commit. A worker that does not have them
builds them from the table. From then on the trees hold the panes, and the table reads them there (`LiveLeaves`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import BoolArray, Int64Array, Runs, State, run_starts, search
from muntin.devices.device import Device
from muntin.devices.ring import DeviceRing
from muntin.devices.split import SplitRing
from muntin.engine.device_panes import live_tree
from muntin.engine.live_leaves import LiveLeaves, joined
from muntin.engine.operators.time import TimeOperator
from muntin.panes.table import Layout, LeafSet, Leaves, PaneTable, Union
from muntin.tree.ring import RingShape, RingTree

FEWEST_PANES = 32
"""Shorter windows are combined anew."""
FEWEST_LEAVES = 1 << 13
"""Fewer leaves than this are combined anew: it is faster than the steps through the levels of a tree."""
CHANGED = 4
"""Where more than one leaf in so many arrives with a batch, building anew is about as fast as updating: then no tree is
built. One that lives is given up where twice as many arrive."""
SPARSE = 4
"""A tree is only built if there is a leaf for one in so many places of the ring, as each takes memory."""
TOO_SPARSE = 4 * SPARSE
"""It is given up when there is only one for so many."""
ROOM = 8
"""The ring has room for a longest window and one in so many panes more, or for as many as there are."""

NONE = int(np.iinfo(np.int64).min)

Tree: TypeAlias = RingTree | DeviceRing | SplitRing


class LivePanes:
    """The trees of a time operator, one for each of its leaf sets, and where the panes of each key are in them."""

    def __init__(
        self, operator: TimeOperator, table: PaneTable, first: int, until: int, lanes: int, device: Device | None = None
    ) -> None:
        self._operator = operator
        self._dictionaries = table.dictionaries
        self._first = first
        """No leaf is before this pane."""
        self._open = NONE
        """No window that is open needs an earlier time."""
        self._lane_of_code = np.full(table.keys.num_rows, -1, dtype=np.int64)
        self._code_of_lane = np.full(lanes, -1, dtype=np.int64)
        self._leaves_of_lane = np.zeros(lanes, dtype=np.int64)
        longest = self._longest(operator)
        span = max(longest + max(longest // ROOM, 1), until - first)
        self._sets = [(leaf_set, operator.requested[False].parts[n]) for n, leaf_set in enumerate(operator.leaf_sets)]
        shape = RingShape.of(longest, span)
        self._trees = [live_tree(device, leaf_set, parts, shape, lanes, until) for leaf_set, parts in self._sets]
        self._version = 0
        """Changes with the trees: leaves of an earlier version cannot be read any more."""

    @staticmethod
    def _longest(operator: TimeOperator) -> int:
        return max(window.longest for window in operator.models) // operator.grid.length

    @classmethod
    def of(
        cls, operator: TimeOperator, table: PaneTable, arrived: int, device: Device | None = None
    ) -> LivePanes | None:
        """The trees over a table, after a batch with so many new leaves; None where they do not pay."""
        sets = operator.own(table)
        count = sum(map(len, sets))
        keys, longest = table.keys.num_rows, cls._longest(operator)
        if (
            longest < FEWEST_PANES
            or count < max(FEWEST_LEAVES, 1)
            or arrived * CHANGED > count
            or keys * longest > SPARSE * count
        ):
            return None
        panes = [operator.panes(leaves.time) for leaves in sets]
        filled = [pane for pane in panes if len(pane)]
        first, until = min(int(pane.min()) for pane in filled), max(int(pane.max()) for pane in filled) + 1
        if keys * (until - first) > SPARSE * count:
            return None
        live = cls(operator, table, first, until, keys, device)
        live._assign(np.unique(np.concatenate([leaves.used_codes for leaves in sets])))
        for (leaf_set, parts), tree, leaves, pane in zip(live._sets, live._trees, sets, panes, strict=True):
            lane, state = live._lane_of_code[leaves.key], leaves.state
            if leaf_set.per_tuple:
                starts = run_starts(leaves.key, pane)
                lane, pane = lane[starts], pane[starts]
                state = parts.leaf_set.reduce(parts.state(state), Runs.of(starts, len(leaves)))
            tree.build(pane, lane, state)
            live._leaves_of_lane += np.bincount(lane, minlength=len(live._leaves_of_lane))
        return live

    @property
    def nbytes(self) -> int:
        return sum(tree.nbytes for tree in self._trees)

    @property
    def codes(self) -> Int64Array:
        """The codes of keys with panes, in order."""
        return np.flatnonzero(self._lane_of_code >= 0)

    @property
    def span(self) -> tuple[int, int]:
        """The times of the first pane that is needed, and of the last one that there may be."""
        grid = self._operator.grid
        return self._first * grid.length + grid.offset, (self._trees[0].until - 1) * grid.length + grid.offset

    def merged(self, layout: Layout, before: PaneTable, arrived: PaneTable) -> tuple[PaneTable, LivePanes | None]:
        """The table with what arrived, and the trees over it; None if they can no longer be used."""
        union = Union.of(layout, [before, arrived])
        codes = union.recoded[0]
        stay = np.array_equal(codes, np.arange(len(codes)))
        if stay:
            self._lane_of_code = _padded(self._lane_of_code, union.keys.num_rows)
        else:
            self._recode(codes, union.keys.num_rows)
        self.follow(union.dictionaries)
        first_set, leaves, new = self._operator.first_set, list[Leaves](), list[Leaves]()
        for index, leaf_set in enumerate(layout.leaf_sets):
            if 0 <= index - first_set < len(self._trees):
                new.append(union.of_table(1, index, leaf_set))
            leaves.append(new[-1] if self._holds(index) else union.merged(index, leaf_set))
        if self._add(new, leaves[first_set:]):
            return self.held(union.table(tuple(leaves))), self
        for index, leaf_set in enumerate(layout.leaf_sets):
            if self._holds(index):
                leaves[index] = joined(leaf_set, self._read(index - first_set, self._version), leaves[index])
        return union.table(tuple(leaves)), None

    def _holds(self, index: int) -> bool:
        """Whether the leaves of a set of the table are those of a tree. Where each is a tuple, the tree has panes."""
        number = index - self._operator.first_set
        return 0 <= number < len(self._trees) and not self._sets[number][0].per_tuple

    def _read(self, number: int, version: int) -> Leaves:
        """The leaves of a tree."""
        if version != self._version:
            raise AssertionError("the tree has changed since it had these leaves")
        codes, tree, grid = self.codes, self._trees[number], self._operator.grid
        place, pane, state = tree.leaves(self._lane_of_code[codes], self._first)
        return Leaves(codes[place], pane * grid.length + grid.offset, state)

    def _add(self, arrived: Sequence[Leaves], table: Sequence[Leaves]) -> bool:
        """Add new leaves to the trees, unless there is no room for them."""
        panes = [self._operator.panes(leaves.time) for leaves in arrived]
        filled = [pane for pane in panes if len(pane)]
        if not filled:
            return True
        first, last = min(int(pane.min()) for pane in filled), max(int(pane.max()) for pane in filled)
        until = max(last + 1, self._trees[0].until)
        self._first = min(self._first, first)
        self._assign(np.unique(np.concatenate([leaves.used_codes for leaves in arrived])))
        if not self._makes_room(until, sum(map(len, arrived))):
            return False
        self._version += 1
        for (leaf_set, parts), tree, leaves, pane, all_leaves in zip(
            self._sets, self._trees, arrived, panes, table, strict=False
        ):
            key, state = leaves.key, leaves.state
            if leaf_set.per_tuple:
                starts = run_starts(key, pane)
                key, pane = key[starts], pane[starts]
                state = self._of_tuples(parts.leaf_set, parts.state(all_leaves.state), all_leaves, key, pane)
            lane = self._lane_of_code[key]
            is_new = tree.add(until, pane, lane, state, replace=leaf_set.per_tuple)
            self._leaves_of_lane += np.bincount(lane[is_new], minlength=len(self._leaves_of_lane))
        return True

    def _of_tuples(self, leaf_set: LeafSet, state: State, leaves: Leaves, key: Int64Array, pane: Int64Array) -> State:
        """All tuples of some panes, combined in their order."""
        grid = self._operator.grid
        start = pane * grid.length + grid.offset
        begin, end = np.searchsorted(leaves.key, key), np.searchsorted(leaves.key, key, side="right")
        begin, end = search(leaves.time, start, begin, end), search(leaves.time, start + grid.length, begin, end)
        return leaf_set.reduce(state, Runs.between(begin, end))

    def _makes_room(self, until: int, new: int) -> bool:
        shape, span = self._trees[0].shape, until - self._first
        lanes = len(self._leaves_of_lane)
        capacity, count = max(shape.capacity, span), int(self._leaves_of_lane.sum()) + new
        if lanes * capacity > TOO_SPARSE * count or new * CHANGED > 2 * count:
            return False
        if span > shape.capacity:
            shape = RingShape.of(self._longest(self._operator), span + span // ROOM)
            self._trees = [tree.resized(shape, self._first_of(tree)) for tree in self._trees]
        return True

    def pruned(self, table: PaneTable, watermark: int) -> PaneTable:
        """The table without the panes that no window open at a watermark needs."""
        self._open = self._operator.first_open(watermark)
        first, until = int(self._operator.panes(np.array([self._open]))[0]), self._trees[0].until
        if first > self._first:
            closed = (self._first_of(self._trees[0]), min(first, until))
            for tree in self._trees:
                self._leaves_of_lane[: tree.lanes] -= tree.leaves_of_lanes(*closed)
            self._first = first
            empty = np.flatnonzero((self._leaves_of_lane == 0) & (self._code_of_lane >= 0))
            if len(empty):
                self._lane_of_code[self._code_of_lane[empty]] = -1
                self._code_of_lane[empty] = -1
                for tree in self._trees:
                    tree.forget(empty)
            self._version += 1
        leaves = list(table.leaves)
        for index, of_tuples in enumerate(leaves):
            if 0 <= index - self._operator.first_set < len(self._trees) and not self._holds(index):
                is_open = of_tuples.time >= self._open
                leaves[index] = of_tuples if is_open.all() else of_tuples.take(is_open)
        return self.held(replace(table, leaves=tuple(leaves)))

    def held(self, table: PaneTable) -> PaneTable:
        """The table over the leaves of the trees as they are now."""
        leaves = list(table.leaves)
        for number, tree in enumerate(self._trees):
            index = number + self._operator.first_set
            if self._holds(index):
                read = partial(self._read, number, self._version)
                leaves[index] = LiveLeaves(read, tree.leaves_of_panes(self._first_of(tree), tree.until), self.codes)
        return replace(table, leaves=tuple(leaves))

    def _first_of(self, tree: Tree) -> int:
        """The first pane in a ring that is needed."""
        return max(self._first, tree.until - tree.shape.capacity)

    def _assign(self, codes: Int64Array) -> None:
        """Lanes for keys that have none."""
        codes = codes[self._lane_of_code[codes] < 0]
        if not len(codes):
            return
        free = np.flatnonzero(self._code_of_lane < 0)
        missing = len(codes) - len(free)
        if missing > 0:
            lanes = len(self._code_of_lane)
            free = np.concatenate([free, np.arange(lanes, lanes + missing)])
            self._code_of_lane = np.append(self._code_of_lane, np.full(missing, -1))
            self._leaves_of_lane = _padded(self._leaves_of_lane, lanes + missing, 0)
            for tree in self._trees:
                tree.widen(lanes + missing)
        free = free[: len(codes)]
        self._lane_of_code[codes], self._code_of_lane[free] = free, codes

    def follow_keys(self, used: BoolArray) -> None:
        """Keys were compacted to those that are used."""
        self._lane_of_code[~used] = -1
        self._recode(np.cumsum(used) - 1, int(used.sum()))

    def _recode(self, codes: Int64Array, keys: int) -> None:
        """The table's keys have new codes."""
        self._version += 1
        old = self.codes
        lanes = self._lane_of_code[old]
        self._lane_of_code = np.full(keys, -1, dtype=np.int64)
        self._lane_of_code[codes[old]] = lanes
        self._code_of_lane[lanes] = codes[old]

    def follow(self, dictionaries: Mapping[str, pa.Array]) -> None:
        """Ranks belong to these dictionaries from now on, which have all values that are needed."""
        for name, values in self._dictionaries.items():
            if values is dictionaries[name] or not len(values) or values.equals(dictionaries[name]):
                continue
            found = pc.index_in(values, dictionaries[name]).fill_null(0)
            ranks = found.to_numpy(zero_copy_only=False).astype(np.int64)
            for (leaf_set, parts), tree in zip(self._sets, self._trees, strict=True):
                for index, field in enumerate((parts.leaf_set if leaf_set.per_tuple else leaf_set).fields):
                    if field.dictionary == name:
                        self._version += 1
                        tree.map_column(index, ranks, inverted=field.inverted)
        self._dictionaries = dictionaries

    def ranges(self, number: int, code: Int64Array, start: Int64Array, end: Int64Array) -> State:
        """The combined panes of keys between two times, in one leaf set: whether there are any, and the state.

        Equal ranges should be neighbours.
        """
        return self._trees[number].ranges(self._lane_of_code[code], *self._bounds(start, end))

    def has_panes(self, code: Int64Array, start: Int64Array, end: Int64Array) -> BoolArray:
        """Whether there are any panes of keys between two times, as the first column of `ranges`."""
        lane, (begin, end) = self._lane_of_code[code], self._bounds(start, end)
        tree = self._trees[0]
        # A range of more panes than the key lacks has one that is there: the tree need not be asked.
        lacking = len(self._trees) * (tree.until - self._first) - self._leaves_of_lane
        has = np.asarray(np.minimum(end, tree.until) - begin > lacking[lane])
        unsure = np.flatnonzero(~has)
        if len(unsure):
            (has[unsure],) = tree.ranges(lane[unsure], begin[unsure], end[unsure], states=False)
        return has

    def _bounds(self, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The panes between two times. Some that no window needs any more may still be in the ring."""
        return np.maximum(self._operator.panes(start), self._first), self._operator.panes(end)


def _padded(values: Int64Array, length: int, value: int = -1) -> Int64Array:
    return values if len(values) == length else np.append(values, np.full(length - len(values), value))
