"""A tree in parts: some aggregates have kernels for a device, and the columns of the others stay with NumPy.

Columns that no window asks for have leaves, and no nodes above them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from muntin.arrays import Array, BoolArray, Int64Array, State
from muntin.devices.ring import DeviceRing
from muntin.tree.ring import RingShape, RingTree

Ring: TypeAlias = RingTree | DeviceRing


class SplitRing:
    """As `RingTree`. Each ring has some columns of the state, by their numbers; all have the same leaves.

    `kept` has the columns that are not answered: its top is its lowest level.
    """

    def __init__(
        self, rings: Sequence[tuple[Ring, Sequence[int]]], kept: tuple[RingTree, Sequence[int]] | None = None
    ) -> None:
        self._answered = tuple(rings)
        self._kept = kept
        self._rings: tuple[tuple[Ring, Sequence[int]], ...] = self._answered if kept is None else (*rings, kept)

    @property
    def shape(self) -> RingShape:
        return self._first.shape

    @property
    def until(self) -> int:
        return self._first.until

    @property
    def lanes(self) -> int:
        return self._first.lanes

    @property
    def nbytes(self) -> int:
        return sum(ring.nbytes for ring, _ in self._rings)

    @property
    def _first(self) -> Ring:
        return self._rings[0][0]

    def build(self, pane: Int64Array, lane: Int64Array, leaves: State) -> None:
        for ring, columns in self._rings:
            ring.build(pane, lane, tuple(leaves[index] for index in columns))

    def add(self, until: int, pane: Int64Array, lane: Int64Array, leaves: State, *, replace: bool = False) -> BoolArray:
        new = [
            ring.add(until, pane, lane, tuple(leaves[index] for index in columns), replace=replace)
            for ring, columns in self._rings
        ]
        return new[0]

    def resized(self, shape: RingShape, first: int) -> SplitRing:
        kept = self._kept
        if kept is not None:
            kept = kept[0].resized(RingShape(shape.capacity, 0), first), kept[1]
        return SplitRing([(ring.resized(shape, first), columns) for ring, columns in self._answered], kept)

    def widen(self, lanes: int) -> None:
        for ring, _ in self._rings:
            ring.widen(lanes)

    def forget(self, lanes: Int64Array) -> None:
        for ring, _ in self._rings:
            ring.forget(lanes)

    def map_column(self, index: int, values: Array, *, inverted: bool) -> None:
        for ring, columns in self._rings:
            if index in columns:
                ring.map_column(list(columns).index(index), values, inverted=inverted)

    def leaves_of_lanes(self, first: int, end: int) -> Int64Array:
        return self._first.leaves_of_lanes(first, end)

    def leaves_of_panes(self, first: int, end: int) -> int:
        return self._first.leaves_of_panes(first, end)

    def ranges(self, lane: Int64Array, begin: Int64Array, end: Int64Array, *, states: bool = True) -> State:
        if not states:
            return self._first.ranges(lane, begin, end, states=False)
        found: dict[int, Array] = {}
        for ring, columns in self._answered:
            present, *state = ring.ranges(lane, begin, end)
            found |= {-1: present, **dict(zip(columns, state, strict=True))}
        return tuple(found[index] for index in sorted(found))

    def leaves(self, lanes: Int64Array, first: int) -> tuple[Int64Array, Int64Array, State]:
        found: dict[int, Array] = {}
        for ring, columns in self._rings:
            place, pane, state = ring.leaves(lanes, first)
            found |= dict(zip(columns, state, strict=True))
        return place, pane, tuple(found[index] for index in sorted(found))
