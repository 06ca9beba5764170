"""What a query's device does in the stages: it reduces rows to panes, and holds trees that live.

Per aggregate, whatever has no kernel for devices is computed with NumPy, in the same groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.devices.device import Device
from muntin.devices.lifting import MOST, SortedRows, on_device
from muntin.devices.ring import DeviceRing
from muntin.devices.split import SplitRing
from muntin.engine.operators.parts import Parts
from muntin.panes.grid import PaneGrid
from muntin.panes.keys import KeyCodes
from muntin.panes.pairs import is_in_order
from muntin.panes.table import LeafSet, Leaves
from muntin.partials.partial import Partial
from muntin.partials.rows import Rows
from muntin.tree.ring import RingShape, RingTree

if TYPE_CHECKING:
    from muntin.engine.plan import Plan

Begun = Callable[[], tuple[Leaves, Mapping[str, pa.Array]]]
"""Waits for the leaves of a batch; and the dictionaries of their ranks."""


class DevicePanes:
    """The pane stage of a task on a device."""

    def __init__(self, device: Device, grid: PaneGrid, leaf_set: LeafSet) -> None:
        self._arrays, self._grid, self._leaf_set = device.arrays, grid, leaf_set

    @classmethod
    def of(cls, plan: Plan) -> DevicePanes | None:
        """None where rows are not reduced to panes, or not on a device."""
        over_time, device = plan.over_time, plan.device
        if over_time is None or device is None or not any(map(on_device, over_time.leaf_sets[0].partials)):
            return None
        return cls(device, plan.grid, over_time.leaf_sets[0])

    def begin(self, batch: pa.RecordBatch, times: Int64Array, coded: KeyCodes) -> Begun | None:
        """Start with a batch; None where its keys and panes do not fit an integer together."""
        places, base, length, pane_count, starts = self._panes(times)
        if coded.count * pane_count >= MOST or base < -MOST or pane_count * length >= MOST:
            return None
        codes = None if coded.count == 1 else coded.codes
        columns = Rows(batch, times, np.zeros(0, dtype=np.int64), 0)
        in_order = codes is None and is_in_order(times)
        rows = SortedRows(self._arrays, columns, places, codes, base, length, pane_count, in_order=in_order)

        def finished() -> tuple[Leaves, Mapping[str, pa.Array]]:
            count = rows.count()
            lifted = {part: rows.lifted(part) for part in self._leaf_set.partials if on_device(part)}
            others = None
            if len(lifted) < len(self._leaf_set.partials):
                others = Rows(batch, times, rows.groups(), count)
            state = [
                column
                for part in self._leaf_set.partials
                for column in (rows.downloaded(lifted[part], part) if part in lifted else part.lift(others or columns))
            ]
            pairs = rows.pairs()
            key = pairs // pane_count
            pane = pairs - key * pane_count
            time = pane * length + base if starts is None else starts[pane]
            return Leaves(key, time, tuple(state)), {} if others is None else others.dictionaries

        return finished

    def _panes(self, times: Int64Array) -> tuple[Int64Array, int, int, int, Int64Array | None]:
        """Where rows are, as numbers; the first pane's begin in these, the length and number of panes; uneven starts.

        Uneven panes are searched on the processor.
        """
        grid = self._grid
        if grid.is_uneven:
            starts = grid.starts_of(times)
            return np.searchsorted(starts, times, side="right") - 1, 0, 1, len(starts), starts
        first, last = ((int(edge) - grid.offset) // grid.length for edge in (times.min(), times.max()))
        return times, first * grid.length + grid.offset, grid.length, last - first + 1, None


def live_tree(
    device: Device | None, leaf_set: LeafSet, parts: Parts, shape: RingShape, lanes: int, until: int
) -> RingTree | DeviceRing | SplitRing:
    """A tree for a leaf set: on a device, with NumPy, or both. Only the requested parts have nodes above the leaves.

    Where there is a leaf per tuple, the tree has the panes of the requested parts.
    """
    if leaf_set.per_tuple:
        return RingTree(parts.leaf_set.combine, _dtypes(parts.leaf_set), shape, lanes, until)
    requested = {fields.start for fields in parts.fields}
    there: list[tuple[Partial, slice]] = []
    here: list[tuple[Partial, slice]] = []
    kept: list[tuple[Partial, slice]] = []
    for partial, fields in leaf_set.parts():
        group = kept if fields.start not in requested else there if device and on_device(partial) else here
        group.append((partial, fields))
    rings: list[tuple[RingTree | DeviceRing, list[int]]] = []
    if there and device is not None:
        own, columns = _some_of(there)
        rings.append((DeviceRing(device.arrays, own.combine, _dtypes(own), shape, lanes, until), columns))
    if here or not rings:
        own, columns = _some_of(here)
        rings.append((RingTree(own.combine, _dtypes(own), shape, lanes, until), columns))
    if kept:
        own, columns = _some_of(kept)
        leaves_only = RingTree(own.combine, _dtypes(own), RingShape(shape.capacity, 0), lanes, until)
        return SplitRing(rings, (leaves_only, columns))
    return rings[0][0] if len(rings) == 1 else SplitRing(rings)


def _some_of(parts: Sequence[tuple[Partial, slice]]) -> tuple[LeafSet, list[int]]:
    """Some partials of a leaf set, and the numbers of their columns."""
    columns = [index for _, fields in parts for index in range(fields.start, fields.stop)]
    return LeafSet(tuple(partial for partial, _ in parts)), columns


def _dtypes(leaf_set: LeafSet) -> Sequence[np.dtype]:
    return [np.dtype(field.dtype) for field in leaf_set.fields]
