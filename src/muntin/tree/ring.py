"""The tree that lives: the panes of many keys in a ring, and above them only nodes whose leaves changed are recomputed.

SPRINGALD's B-PAT (section IV-B) overwrites its oldest leaves with new ones. So does this tree, for all keys at once:
every key has a *lane*, and a node is a row of all lanes. Pane `p` is leaf `p mod capacity`; node `i` of level `l`
combines the leaves `[i * 2**l, (i + 1) * 2**l)`, and the levels are concatenated, as in the paper's figure 8.

Ranges are walked in panes, not in leaves. The capacity is a multiple of the widest node, so a node that lies within a
range has its panes in order wherever the ring begins: the paper's wrapped ranges (algorithm 2) need no case of their
own, and `combine` need not be commutative. Nodes over both ends of the ring are computed and never read.

Where a key has no pane, the node is absent, which is the paper's neutral element: the first column says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from muntin.arrays import Array, BoolArray, Combine, Int64Array, State, combine_present, run_starts
from muntin.tree.flat import widest_levels

SPARED_LEVELS = 2
"""The widest nodes span a quarter of the longest window. Wider ones would save a window two steps, at most three, and
cost the ring up to half of its memory, as its capacity is a multiple of the widest node."""
WHOLE = 4
"""Where at least one lane in so many has changed, a node is recomputed for all lanes, without gathering them."""
BLOCK = 1 << 16
"""How many nodes of lanes a step recomputes at once, at most: they should fit in the processor's cache."""
WALK, STEP = 512, 64
"""A walk of one window for all lanes costs about as much as `STEP` windows of one lane in a walk of many, which costs
as much as `WALK` of them however few there are."""


@dataclass(frozen=True)
class RingShape:
    capacity: int
    """The number of panes in the ring."""
    top: int
    """The level of the widest nodes."""

    @classmethod
    def of(cls, longest: int, span: int) -> RingShape:
        """A ring for windows of up to `longest` panes, of which `span` are in it at once."""
        top = max(longest.bit_length() - 1 - SPARED_LEVELS, 0)
        return cls(-(-max(span, 1) >> top) << top, top)

    @cached_property
    def offsets(self) -> Int64Array:
        """Where each level begins among the nodes."""
        sizes = self.capacity >> np.arange(self.top + 1)
        return np.asarray(np.cumsum(sizes) - sizes)

    @property
    def nodes(self) -> int:
        return int(self.offsets[-1]) + (self.capacity >> self.top)

    def node(self, pane: Int64Array, level: Int64Array) -> Int64Array:
        """The node of a level that the pane is in."""
        return np.asarray(self.offsets[level] + (pane >> level) % (self.capacity >> level))

    def walk(self, begin: int, end: int) -> Iterator[int]:
        """The widest nodes that make up the panes `[begin, end)`, in order."""
        while begin < end:
            fits, aligned = (end - begin).bit_length() - 1, (begin & -begin).bit_length() - 1 if begin else self.top
            level = min(fits, aligned, self.top)
            yield int(self.offsets[level]) + (begin >> level) % (self.capacity >> level)
            begin += 1 << level


def steps_up(
    shape: RingShape, lanes: int, width: int, changed: Int64Array
) -> Iterator[tuple[int, Int64Array, Int64Array | None]]:
    """What to recompute above changed leaves, level by level. `changed` are leaf times width plus lane, in order.

    Each step is a level and either nodes within it and the lanes of them, or, without lanes, nodes times width plus
    lane.
    """
    parents: Int64Array | None = None
    for level in range(1, shape.top + 1):
        if parents is None:
            node = changed // width
            distinct = node[run_starts(node)]
            if len(changed) * WHOLE < len(distinct) * lanes:
                changed = np.unique((node >> 1) * width + changed % width)
                yield level, changed, None
                continue
            parents = distinct
        parents = parents >> 1
        parents = parents[run_starts(parents)]
        yield level, parents, np.arange(lanes)


def climb(nodes: Sequence[Array], shape: RingShape, lanes: int, changed: Int64Array, combine: Combine) -> None:
    """Recompute the nodes above changed leaves, level by level. `changed` are leaf times lanes plus lane, in order."""
    for level, parents, whole in steps_up(shape, lanes, nodes[0].shape[1], changed):
        below, above = shape.offsets[level - 1 : level + 1].tolist()
        if whole is None:
            _recompute(nodes, parents, below, above, combine)
        else:
            recompute_lanes(nodes, lanes, parents, below, above, combine)


def _recompute(nodes: Sequence[Array], changed: Int64Array, below: int, above: int, combine: Combine) -> None:
    """Recompute some lanes of some nodes of one level, from the level below."""
    width = nodes[0].shape[1]
    node, lane = np.divmod(changed, width)
    left, right = (below + 2 * node) * width + lane, (below + 2 * node + 1) * width + lane
    flat = [column.reshape(-1) for column in nodes]
    with np.errstate(all="ignore"):
        updated = combine_present(
            combine, tuple(column[left] for column in flat), tuple(column[right] for column in flat)
        )
    for column, update in zip(flat, updated, strict=True):
        column[changed + above * width] = update


def recompute_lanes(
    nodes: Sequence[Array], lanes: int, parents: Int64Array, below: int, above: int, combine: Combine
) -> None:
    """Recompute all lanes of some nodes of one level, from the level below."""
    step = max(BLOCK // max(lanes, 1), 1)
    for first in range(0, len(parents), step):
        of_block = parents[first : first + step]
        sides = [tuple(column[below + 2 * of_block + side, :lanes].reshape(-1) for column in nodes) for side in (0, 1)]
        # Nodes over both ends of the ring may overflow: they are never read.
        with np.errstate(all="ignore"):
            updated = combine_present(combine, *sides)
        for column, update in zip(nodes, updated, strict=True):
            column[above + of_block, :lanes] = update.reshape(len(of_block), lanes)


class RingTree:
    """The panes `[until - capacity, until)` of some lanes."""

    def __init__(self, combine: Combine, dtypes: Sequence[np.dtype], shape: RingShape, lanes: int, until: int) -> None:
        self.shape = shape
        self.until = until
        self.lanes = lanes
        """How many lanes may have leaves."""
        self.counts = np.zeros(shape.capacity, dtype=np.int64)
        """How many lanes have each leaf."""
        self._combine = combine
        self._nodes = [np.zeros((shape.nodes, lanes), dtype=dtype) for dtype in (np.dtype(bool), *dtypes)]

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._nodes)

    def add(self, until: int, pane: Int64Array, lane: Int64Array, leaves: State, *, replace: bool = False) -> BoolArray:
        """Move the ring up to the pane `until`, and add leaves. Returns which of them are new.

        Each leaf is combined with the one that is there, unless it replaces it. Panes that leave the ring are
        forgotten.
        """
        left = self._move(until)
        leaf = pane % self.shape.capacity
        cells = leaf * self._nodes[0].shape[1] + lane
        present, *columns = (column.reshape(-1) for column in self._nodes)
        was_present = present[cells]
        known = np.flatnonzero(was_present)
        if len(known) and not replace:
            with np.errstate(all="ignore"):
                combined = self._combine(
                    tuple(column[cells[known]] for column in columns), tuple(column[known] for column in leaves)
                )
            leaves = tuple(column.copy() for column in leaves)
            for update, column in zip(combined, leaves, strict=True):
                column[known] = update
        present[cells] = True
        for column, update in zip(columns, leaves, strict=True):
            column[cells] = update
        np.add.at(self.counts, leaf[~was_present] if len(known) else leaf, 1)
        changed = np.unique(np.concatenate([left, cells])) if len(left) else np.sort(cells)
        if len(changed):
            climb(self._nodes, self.shape, self.lanes, changed, self._combine)
        return np.asarray(~was_present)

    def _move(self, until: int) -> Int64Array:
        """Forget the panes that leave the ring. Returns the leaves that were there."""
        capacity = self.shape.capacity
        entering = np.arange(max(self.until, until - capacity), until) % capacity
        self.until = max(self.until, until)
        entering = entering[self.counts[entering] > 0]
        leaf, lane = np.nonzero(self._nodes[0][entering])
        self._nodes[0][entering] = False
        self.counts[entering] = 0
        return np.asarray(entering[leaf] * self._nodes[0].shape[1] + lane)

    def build(self, pane: Int64Array, lane: Int64Array, leaves: State) -> None:
        """All leaves of an empty tree, and all nodes."""
        leaf = pane % self.shape.capacity
        self._nodes[0][leaf, lane] = True
        for column, values in zip(self._nodes[1:], leaves, strict=True):
            column[leaf, lane] = values
        self.counts += np.bincount(leaf, minlength=self.shape.capacity)
        self._build_nodes()

    def _build_nodes(self) -> None:
        offsets = self.shape.offsets.tolist()
        for level in range(self.shape.top):
            parents = np.arange(self.shape.capacity >> (level + 1))
            recompute_lanes(self._nodes, self.lanes, parents, offsets[level], offsets[level + 1], self._combine)

    def resized(self, shape: RingShape, first: int) -> RingTree:
        """The same leaves, without those before the pane `first`, in a ring of another size."""
        dtypes = [column.dtype for column in self._nodes[1:]]
        tree = RingTree(self._combine, dtypes, shape, self._nodes[0].shape[1], self.until)
        tree.lanes = self.lanes
        panes = np.arange(first, self.until)
        old, new = panes % self.shape.capacity, panes % shape.capacity
        for column, own in zip(self._nodes, tree._nodes, strict=True):
            own[new] = column[old]
        tree.counts[new] = self.counts[old]
        tree._build_nodes()
        return tree

    def widen(self, lanes: int) -> None:
        """Room for more lanes."""
        self.lanes = max(self.lanes, lanes)
        width = self._nodes[0].shape[1]
        if lanes > width:
            room = max(lanes, 2 * width) - width
            self._nodes = [np.pad(column, ((0, 0), (0, room))) for column in self._nodes]

    def forget(self, lanes: Int64Array) -> None:
        """Remove all leaves of some lanes."""
        capacity = self.shape.capacity
        self.counts -= np.count_nonzero(self._nodes[0][:capacity, lanes], axis=1)
        self._nodes[0][:, lanes] = False

    def map_column(self, index: int, values: Array, *, inverted: bool) -> None:
        """Replace every value of a column of the states by `values[value]`."""
        column = self._nodes[1 + index]
        self._nodes[1 + index] = ~values.take(~column, mode="clip") if inverted else values.take(column, mode="clip")

    def leaves_of_lanes(self, first: int, end: int) -> Int64Array:
        """How many of the panes `[first, end)` each lane has."""
        leaf = np.arange(first, end) % self.shape.capacity
        return np.asarray(np.count_nonzero(self._nodes[0][leaf, : self.lanes], axis=0))

    def leaves_of_panes(self, first: int, end: int) -> int:
        """How many leaves the panes `[first, end)` have."""
        return int(self.counts[np.arange(first, end) % self.shape.capacity].sum())

    def leaves(self, lanes: Int64Array, first: int) -> tuple[Int64Array, Int64Array, State]:
        """The leaves of some lanes from a pane on, lane by lane: places among `lanes`, panes, and states."""
        columns = [column[: self.shape.capacity] for column in self._nodes]
        return leaves_of(columns, lanes, np.arange(max(first, self.until - self.shape.capacity), self.until))

    def ranges(self, lane: Int64Array, begin: Int64Array, end: Int64Array, *, states: bool = True) -> State:
        """The combined panes `[begin[q], end[q])` of a lane, in order: whether there are any, and their state.

        Ranges may be empty, and may exceed the ring. Equal ranges should be neighbours. Without `states`, only the
        first column is computed.
        """
        begin, end = np.maximum(begin, self.until - self.shape.capacity), np.minimum(end, self.until)
        nodes = self._nodes if states else self._nodes[:1]
        combine = self._combine if states else _nothing
        starts = run_starts(begin, end)
        if len(starts) * STEP > len(lane) + WALK:
            return _walk_all(nodes, self.shape, lane, begin, end, combine)
        results = [np.zeros(len(lane), dtype=column.dtype) for column in nodes]
        for first, last in pairwise([*starts.tolist(), len(lane)]):
            walked = _walk(nodes, self.shape, self.lanes, int(begin[first]), int(end[first]), combine)
            for result, column in zip(results, walked, strict=True):
                result[first:last] = column[lane[first:last]]
        return tuple(results)


def leaves_of(columns: Sequence[Array], lanes: Int64Array, panes: Int64Array) -> tuple[Int64Array, Int64Array, State]:
    """As `RingTree.leaves`, of the lowest level of its nodes."""
    leaf = panes % len(columns[0])
    place, at = np.nonzero(columns[0][:, lanes].T[:, leaf])
    return place, panes[at], tuple(column[leaf[at], lanes[place]] for column in columns[1:])


def _nothing(left: State, right: State) -> State:
    return ()


def _walk(nodes: Sequence[Array], shape: RingShape, lanes: int, begin: int, end: int, combine: Combine) -> State:
    """One range of all lanes."""
    result: State | None = None
    for node in shape.walk(begin, end):
        step = tuple(column[node, :lanes] for column in nodes)
        result = step if result is None else combine_present(combine, result, step)
    return tuple(np.zeros(lanes, dtype=column.dtype) for column in nodes) if result is None else result


def _walk_all(
    nodes: Sequence[Array], shape: RingShape, lane: Int64Array, begin: Int64Array, end: Int64Array, combine: Combine
) -> State:
    """Many ranges of any lanes, which advance together."""
    width = nodes[0].shape[1]
    flat = [column.reshape(-1) for column in nodes]
    results = [np.zeros(len(lane), dtype=column.dtype) for column in nodes]
    position = begin.astype(np.int64)
    active = np.flatnonzero(position < end)
    while len(active):
        level = widest_levels(position[active], end[active], shape.top)
        cells = shape.node(position[active], level) * width + lane[active]
        step = combine_present(
            combine, tuple(column[active] for column in results), tuple(column[cells] for column in flat)
        )
        for column, update in zip(results, step, strict=True):
            column[active] = update
        position[active] += np.left_shift(1, level)
        active = active[position[active] < end[active]]
    return tuple(results)
