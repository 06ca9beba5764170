"""The tree that lives, on a device: SPRINGALD's circular buffer of panes stays there from batch to batch.

What a step touches is decided on the processor, from panes and lanes alone, and the decisions are those of the ring in
`muntin.tree.ring`. Only new leaves go to the device, and only answers come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from muntin.arrays import Array, BoolArray, Combine, Int64Array, State, run_starts
from muntin.devices.levels import Columns, combined, init_level, update_level, window, windows
from muntin.devices.shim import Arrays
from muntin.tree.ring import STEP, WALK, RingShape, leaves_of, steps_up


class DeviceRing:
    """As `RingTree`, with the nodes on a device."""

    def __init__(
        self,
        arrays: Arrays,
        combine: Combine,
        dtypes: Sequence[np.dtype],
        shape: RingShape,
        lanes: int,
        until: int,
    ) -> None:
        self.shape = shape
        self.until = until
        self.lanes = lanes
        self.counts = np.zeros(shape.capacity, dtype=np.int64)
        self._arrays, self._combine, self._width = arrays, combine, lanes
        self._dtypes = [np.dtype(bool), *dtypes]
        self._columns = [arrays.upload(np.zeros(shape.nodes * lanes, dtype=dtype)) for dtype in self._dtypes]

    @property
    def nbytes(self) -> int:
        """The bytes on the device."""
        return self.shape.nodes * self._width * sum(dtype.itemsize for dtype in self._dtypes)

    def build(self, pane: Int64Array, lane: Int64Array, leaves: State) -> None:
        leaf = pane % self.shape.capacity
        self._put(leaf * self._width + lane, leaves)
        self.counts += np.bincount(leaf, minlength=self.shape.capacity)
        self._init_levels()

    def add(self, until: int, pane: Int64Array, lane: Int64Array, leaves: State, *, replace: bool = False) -> BoolArray:
        left = self._move(until)
        leaf, arrays = pane % self.shape.capacity, self._arrays
        cells = leaf * self._width + lane
        places = arrays.upload(cells)
        there = [arrays.xp.take(column, places) for column in self._columns]
        is_new: BoolArray = ~arrays.download(there[0])
        values = [arrays.upload(np.ones(len(cells), dtype=bool)), *map(arrays.upload, leaves)]
        if not replace:
            values = combined(arrays, self._combine, there, values)
        self._columns = [arrays.put(column, places, new) for column, new in zip(self._columns, values, strict=True)]
        np.add.at(self.counts, leaf[is_new], 1)
        self._climb(np.unique(np.concatenate([left, cells])) if len(left) else np.sort(cells))
        return is_new

    def _put(self, cells: Int64Array, leaves: State) -> None:
        places, present = self._arrays.upload(cells), np.ones(len(cells), dtype=bool)
        self._columns = [
            self._arrays.put(column, places, self._arrays.upload(values))
            for column, values in zip(self._columns, (present, *leaves), strict=True)
        ]

    def _climb(self, changed: Int64Array) -> None:
        if not len(changed):
            return
        for level, parents, lanes in steps_up(self.shape, self.lanes, self._width, changed):
            cells = parents if lanes is None else (parents[:, None] * self._width + lanes).reshape(-1)
            places = self._arrays.upload(cells)
            self._columns = update_level(
                self._arrays, self._columns, self.shape, self._width, level, places, self._combine
            )

    def _init_levels(self) -> None:
        for level in range(1, self.shape.top + 1):
            init_level(self._arrays, self._columns, self.shape, self._width, level, self._combine)

    def _move(self, until: int) -> Int64Array:
        """Forget the panes that leave the ring. Returns the leaves that may have been there: all lanes of them."""
        capacity = self.shape.capacity
        entering = np.arange(max(self.until, until - capacity), until) % capacity
        self.until = max(self.until, until)
        entering = np.sort(entering[self.counts[entering] > 0])
        self.counts[entering] = 0
        cells = (entering[:, None] * self._width + np.arange(self.lanes)).reshape(-1)
        self._remove(cells)
        return cells

    def _remove(self, cells: Int64Array) -> None:
        if len(cells):
            absent = self._arrays.upload(np.zeros(len(cells), dtype=bool))
            self._columns[0] = self._arrays.put(self._columns[0], self._arrays.upload(cells), absent)

    def resized(self, shape: RingShape, first: int) -> DeviceRing:
        ring = DeviceRing(self._arrays, self._combine, self._dtypes[1:], shape, self._width, self.until)
        ring.lanes = self.lanes
        panes = np.arange(first, self.until)
        old, new = panes % self.shape.capacity, panes % shape.capacity
        ring._copy(self, old, new)
        ring.counts[new] = self.counts[old]
        ring._init_levels()
        return ring

    def _copy(self, ring: DeviceRing, old: Int64Array, new: Int64Array) -> None:
        """Take rows of nodes over from a ring of the same or of a smaller width."""
        lanes = np.arange(ring._width)
        source = self._arrays.upload((old[:, None] * ring._width + lanes).reshape(-1))
        target = self._arrays.upload((new[:, None] * self._width + lanes).reshape(-1))
        columns = zip(self._columns, ring._columns, strict=True)
        self._columns = [self._arrays.put(own, target, self._arrays.xp.take(other, source)) for own, other in columns]

    def widen(self, lanes: int) -> None:
        self.lanes = max(self.lanes, lanes)
        if lanes <= self._width:
            return
        wide = DeviceRing(
            self._arrays, self._combine, self._dtypes[1:], self.shape, max(lanes, 2 * self._width), self.until
        )
        rows = np.arange(self.shape.nodes)
        wide._copy(self, rows, rows)
        self._columns, self._width = wide._columns, wide._width

    def forget(self, lanes: Int64Array) -> None:
        capacity, width = self.shape.capacity, self._width
        present = self._arrays.download(self._columns[0][: capacity * width]).reshape(capacity, width)
        self.counts -= np.count_nonzero(present[:, lanes], axis=1)
        self._remove((np.arange(self.shape.nodes)[:, None] * width + lanes).reshape(-1))

    def map_column(self, index: int, values: Array, *, inverted: bool) -> None:
        raise AssertionError("ranks are not on devices")

    def leaves_of_lanes(self, first: int, end: int) -> Int64Array:
        leaf = np.arange(first, end) % self.shape.capacity
        cells = (leaf[:, None] * self._width + np.arange(self.lanes)).reshape(-1)
        present = self._arrays.download(self._arrays.xp.take(self._columns[0], self._arrays.upload(cells)))
        return np.asarray(np.count_nonzero(present.reshape(len(leaf), self.lanes), axis=0))

    def leaves_of_panes(self, first: int, end: int) -> int:
        return int(self.counts[np.arange(first, end) % self.shape.capacity].sum())

    def leaves(self, lanes: Int64Array, first: int) -> tuple[Int64Array, Int64Array, State]:
        capacity, width = self.shape.capacity, self._width
        columns = [self._arrays.download(column[: capacity * width]).reshape(-1, width) for column in self._columns]
        return leaves_of(columns, lanes, np.arange(max(first, self.until - capacity), self.until))

    def ranges(self, lane: Int64Array, begin: Int64Array, end: Int64Array, *, states: bool = True) -> State:
        begin, end = np.maximum(begin, self.until - self.shape.capacity), np.minimum(end, self.until)
        starts = run_starts(begin, end)
        columns = self._columns if states else self._columns[:1]
        combine = self._combine if states else _nothing
        if len(starts) * STEP <= len(lane) + WALK:
            return self._few_ranges(columns, combine, starts, lane, begin, end)
        widest = max(int((end - begin).max(initial=0)), 0)
        lanes, first, last = (self._arrays.upload(values.astype(np.int64, copy=False)) for values in (lane, begin, end))
        results = windows(self._arrays, columns, self.shape, self._width, lanes, first, last, combine, widest)
        return tuple(self._arrays.download(column) for column in results)

    def _few_ranges(
        self,
        columns: Columns,
        combine: Combine,
        starts: Int64Array,
        lane: Int64Array,
        begin: Int64Array,
        end: Int64Array,
    ) -> State:
        """One range of all lanes after the other."""
        xp, parts = self._arrays.xp, list[Columns]()
        for first, last in pairwise([*starts.tolist(), len(lane)]):
            bounds = int(begin[first]), int(end[first])
            results = window(self._arrays, columns, self.shape, self._width, *bounds, combine)
            lanes = self._arrays.upload(lane[first:last])
            parts.append([xp.take(column, lanes) for column in results])
        if not parts:
            return tuple(np.zeros(0, dtype=dtype) for dtype in self._dtypes[: len(columns)])
        return tuple(self._arrays.download(xp.concat(part)) for part in zip(*parts, strict=True))


def _nothing(left: State, right: State) -> State:
    return ()
