"""The ring on a device: as the ring of NumPy, and against the same dictionary of panes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.devices.device import Device
from muntin.devices.ring import DeviceRing
from muntin.devices.split import SplitRing
from muntin.tree.ring import RingShape, RingTree
from tests.builders import compose
from tests.devices.libraries import DEVICES
from tests.tree.test_ring import INT64, Panes, any_updates_and_ranges, check, columns


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_updates_and_ranges(device: Device, data: st.DataObject) -> None:
    any_updates_and_ranges(data, partial(DeviceRing, device.arrays))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("longest", [1, 2, 5, 17, 64])
def test_every_range_wherever_the_ring_begins(device: Device, longest: int) -> None:
    shape = RingShape.of(longest, longest + 3)
    tree = DeviceRing(device.arrays, compose, (INT64, INT64), shape, 2, -longest)
    panes: Panes = {}
    for pane in range(-longest, 3 * longest, 3):
        added = {(lane, p): (p % 5 + 1, p % 7) for lane in (0, 1) for p in range(pane, pane + 3) if (p + lane) % 4}
        tree.add(pane + 3, *columns(added))
        panes = {place: each for place, each in (panes | added).items() if place[1] >= tree.until - shape.capacity}
        step = max(longest // 6, 1)
        begins = range(tree.until - longest - 3, tree.until, step)
        check(tree, panes, [(n % 2, b, e) for n, b in enumerate(begins) for e in range(b, b + longest + 1, step)])


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_half_of_the_columns_on_a_device(data: st.DataObject) -> None:
    """Three copies of the state, one in each ring, in mixed columns; of one only the leaves."""
    arrays = Device("cpu", "numpy").arrays

    class Halves(SplitRing):
        def __init__(self, _: object, dtypes: Sequence[np.dtype], shape: RingShape, lanes: int, until: int) -> None:
            there = DeviceRing(arrays, compose, dtypes, shape, lanes, until)
            kept = RingTree(compose, dtypes, RingShape(shape.capacity, 0), lanes, until)
            super().__init__(
                [(there, (1, 2)), (RingTree(compose, dtypes, shape, lanes, until), (0, 3))], (kept, (4, 5))
            )

    class Thrice:
        """The copies as one state."""

        def __init__(self, ring: SplitRing) -> None:
            self._ring = ring

        def __getattr__(self, name: str) -> object:
            return getattr(self._ring, name)

        def build(self, pane, lane, state) -> None:  # type: ignore[no-untyped-def]
            self._ring.build(pane, lane, (state[0], state[0], state[1], state[1], *state))

        def add(self, until, pane, lane, state, *, replace=False):  # type: ignore[no-untyped-def]
            return self._ring.add(until, pane, lane, (state[0], state[0], state[1], state[1], *state), replace=replace)

        def resized(self, shape: RingShape, first: int) -> Thrice:
            return Thrice(self._ring.resized(shape, first))

        def leaves(self, lanes, first):  # type: ignore[no-untyped-def]
            place, pane, state = self._ring.leaves(lanes, first)
            assert all(state[i].tolist() == state[j].tolist() for i, j in ((0, 1), (0, 4), (2, 3), (2, 5)))
            return place, pane, (state[0], state[2])

        def ranges(self, lane, begin, end, *, states=True):  # type: ignore[no-untyped-def]
            present, *state = self._ring.ranges(lane, begin, end, states=states)
            if states:
                there = present.nonzero()[0]
                assert all(np.array_equal(state[i][there], state[i + 1][there]) for i in (0, 2))
            return (present, *state[::2])

    any_updates_and_ranges(data, lambda *given: Thrice(Halves(*given)))
