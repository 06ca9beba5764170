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
from muntin.panes.grid import PaneGrid
from muntin.panes.keys import KeyCodes
from muntin.panes.pairs import is_in_order
from muntin.panes.table import LeafSet, Leaves
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
    device: Device | None, leaf_set: LeafSet, shape: RingShape, lanes: int, until: int
) -> RingTree | DeviceRing | SplitRing:
    """A tree for a leaf set: on a device, with NumPy, or both."""

    def dtypes(partials: LeafSet) -> Sequence[np.dtype]:
        return [np.dtype(field.dtype) for field in partials.fields]

    if device is None or leaf_set.per_tuple or not any(map(on_device, leaf_set.partials)):
        return RingTree(leaf_set.combine, dtypes(leaf_set), shape, lanes, until)
    there, here = (LeafSet(tuple(part for part in leaf_set.partials if on_device(part) is on)) for on in (True, False))
    ring = DeviceRing(device.arrays, there.combine, dtypes(there), shape, lanes, until)
    if not here.partials:
        return ring
    columns = [
        [
            index
            for part, fields in leaf_set.parts()
            if part in parts.partials
            for index in range(fields.start, fields.stop)
        ]
        for parts in (there, here)
    ]
    return SplitRing(((ring, columns[0]), (RingTree(here.combine, dtypes(here), shape, lanes, until), columns[1])))
