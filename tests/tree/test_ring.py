"""The ring tree against a dictionary of panes, and how many nodes it recomputes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.arrays import Int64Array, State
from muntin.devices import ring as devices
from muntin.tree import ring
from muntin.tree.ring import RingShape, RingTree
from tests.builders import compose
from tests.naive import compose_all

Panes = dict[tuple[int, int], tuple[int, int]]
"""By lane and pane: an affine function, whose composition depends on the order."""
INT64 = np.dtype(np.int64)


def integers(values: list[int]) -> Int64Array:
    return np.array(values, dtype=np.int64)


def naive(panes: Panes, lane: int, begin: int, end: int) -> tuple[int, int] | None:
    inside = [panes[lane, pane] for pane in range(begin, end) if (lane, pane) in panes]
    return compose_all(inside) if inside else None


def columns(panes: Mapping[tuple[int, int], tuple[int, int]]) -> tuple[Int64Array, Int64Array, State]:
    """Panes, lanes and states."""
    return (
        integers([pane for _, pane in panes]),
        integers([lane for lane, _ in panes]),
        (integers([a for a, _ in panes.values()]), integers([b for _, b in panes.values()])),
    )


def check(tree: Any, panes: Panes, ranges: list[tuple[int, int, int]]) -> None:
    ranges = sorted(ranges, key=lambda each: each[1:])
    lane, begin, end = (integers([each[i] for each in ranges]) for i in range(3))
    present, slope, shift = tree.ranges(lane, begin, end)
    expected = [naive(panes, *each) for each in ranges]
    assert present.tolist() == [each is not None for each in expected]
    (only_present,) = tree.ranges(lane, begin, end, states=False)
    assert only_present.tolist() == present.tolist()
    for i, each in enumerate(expected):
        assert each is None or (slope[i], shift[i]) == each


AFFINE = st.tuples(st.integers(0, 5), st.integers(0, 100))


@settings(max_examples=150)
@given(st.data())
def test_any_updates_and_ranges(data: st.DataObject) -> None:
    any_updates_and_ranges(data, RingTree)


def any_updates_and_ranges(data: st.DataObject, ring_of: Callable[..., Any]) -> None:
    """Panes arrive in any order, some of them again; the oldest leave; lanes come and go; the ring grows."""
    longest, reach = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 9))
    shape = RingShape.of(longest, longest + reach)
    lanes, until = data.draw(st.integers(1, 5)), data.draw(st.integers(-100, 100))
    walk = data.draw(st.sampled_from([0, 1 << 20]))  # all ranges at once, or one after the other
    whole, block = data.draw(st.sampled_from([0, 4, 1 << 20])), data.draw(st.sampled_from([1, 3, 1 << 20]))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"WALK": walk, "WHOLE": whole, "BLOCK": block}.items():
            patch.setattr(ring, name, value)
            if hasattr(devices, name):
                patch.setattr(devices, name, value)
        panes: Panes = {}
        first = until - longest
        built = data.draw(st.dictionaries(st.tuples(lane_of(lanes), st.integers(first, until - 1)), AFFINE))
        tree = ring_of(compose, (INT64, INT64), shape, lanes, until)
        tree.build(*columns(built))
        panes |= built
        for _ in range(data.draw(st.integers(0, 5))):
            if data.draw(st.integers(0, 3)) == 0:
                lanes += data.draw(st.integers(0, 3))
                tree.widen(lanes)
            if data.draw(st.integers(0, 5)) == 0:
                shape = RingShape.of(longest, shape.capacity + data.draw(st.integers(0, 20)))
                first = max(first, until - tree.shape.capacity)
                tree = tree.resized(shape, first)
                panes = {place: each for place, each in panes.items() if place[1] >= first}
            if data.draw(st.integers(0, 4)) == 0:
                gone = data.draw(st.sets(lane_of(lanes)))
                tree.forget(integers(sorted(gone)))
                panes = {place: each for place, each in panes.items() if place[0] not in gone}
            until += data.draw(st.integers(0, reach) | st.integers(0, 3 * longest))
            first = until - shape.capacity
            panes = {place: each for place, each in panes.items() if place[1] >= first}
            added = data.draw(st.dictionaries(st.tuples(lane_of(lanes), st.integers(first, until - 1)), AFFINE))
            replace = data.draw(st.booleans())
            is_new = tree.add(until, *columns(added), replace=replace)
            assert is_new.tolist() == [place not in panes for place in added]
            for place, each in added.items():
                known = place in panes and not replace
                panes[place] = compose_all([panes[place], each]) if known else each
            bounds = st.integers(first, until)
            edges = data.draw(st.lists(st.tuples(lane_of(lanes), bounds, bounds), max_size=12))
            check(tree, panes, [(lane, min(a, b), max(a, b)) for lane, a, b in edges])
            order = integers(data.draw(st.permutations(range(lanes))))
            oldest = data.draw(st.integers(first - 3, until))
            place, pane, state = tree.leaves(order, oldest)
            states = zip(*(column.tolist() for column in state), strict=True)
            found = list(zip(zip(order[place].tolist(), pane.tolist(), strict=True), states, strict=True))
            expected = {key: each for key, each in panes.items() if key[1] >= oldest}
            assert found == sorted(expected.items(), key=lambda each: (order.tolist().index(each[0][0]), each[0][1]))
            of_lanes = [sum(lane == place[0] for place in panes) for lane in range(lanes)]
            assert tree.leaves_of_lanes(first, until).tolist() == of_lanes
            assert tree.leaves_of_panes(first, until) == len(panes)


def lane_of(lanes: int) -> st.SearchStrategy[int]:
    return st.integers(0, lanes - 1)


@pytest.mark.parametrize("longest", [*range(1, 20), 64, 100])
def test_every_range_wherever_the_ring_begins(longest: int) -> None:
    shape = RingShape.of(longest, longest + 3)
    tree = RingTree(compose, (INT64, INT64), shape, 2, -longest)
    panes: Panes = {}
    for pane in range(-longest, 3 * longest, 3):
        added = {(lane, p): (p % 5 + 1, p % 7) for lane in (0, 1) for p in range(pane, pane + 3) if (p + lane) % 4}
        tree.add(pane + 3, *columns(added))
        panes = {place: each for place, each in (panes | added).items() if place[1] >= tree.until - shape.capacity}
        step = max(longest // 6, 1)
        begins = range(tree.until - longest - 3, tree.until, step)
        check(tree, panes, [(n % 2, b, e) for n, b in enumerate(begins) for e in range(b, b + longest + 1, step)])


class Counting:
    """A sum that counts how many pairs it combines."""

    def __init__(self) -> None:
        self.combines = 0

    def __call__(self, left: State, right: State) -> State:
        self.combines += len(left[0])
        return (left[0] + right[0],)


@pytest.mark.parametrize("lanes", [1, 50])
@pytest.mark.parametrize("new", [1, 3, 40])
def test_only_nodes_above_changed_leaves_are_recomputed(lanes: int, new: int) -> None:
    longest = 4096
    shape, combine = RingShape.of(longest, longest + 40), Counting()
    assert shape.capacity < 1.3 * longest
    tree = RingTree(combine, (INT64,), shape, lanes, longest)
    pane, lane = np.divmod(np.arange(longest * lanes), lanes)
    tree.build(pane, lane, (pane,))
    assert combine.combines <= longest * lanes
    every_lane = np.arange(lanes)
    for until in range(longest + new, longest + 20 * new, new):
        combine.combines = 0
        pane, lane = (each.reshape(-1) for each in np.meshgrid(np.arange(until - new, until), every_lane))
        tree.add(until, pane, lane, (pane,))
        assert combine.combines <= lanes * (2 * new + 2 * shape.top)
        combine.combines = 0
        begin = until - longest
        _, total = tree.ranges(every_lane, np.full(lanes, begin), np.full(lanes, until))
        assert total.tolist() == [sum(range(begin, until))] * lanes
        assert combine.combines <= lanes * (2 * shape.top + 8)


def test_one_late_leaf_recomputes_one_path() -> None:
    shape, combine = RingShape.of(1024, 1030), Counting()
    tree = RingTree(combine, (INT64,), shape, 200, 1024)
    pane, lane = np.divmod(np.arange(1024 * 200), 200)
    tree.build(pane, lane, (pane,))
    combine.combines = 0
    tree.add(1024, integers([17]), integers([3]), (integers([1000]),))
    assert combine.combines == 1 + shape.top
    _, total = tree.ranges(integers([3]), integers([0]), integers([1024]))
    assert total.tolist() == [sum(range(1024)) + 1000]


def test_absent_leaves_are_never_combined() -> None:
    combine = Counting()
    tree = RingTree(combine, (INT64,), RingShape.of(64, 64), 3, 64)
    tree.add(64, integers([0, 63]), integers([1, 1]), (integers([5, 6]),))
    assert combine.combines == 0
    present, total = tree.ranges(integers([0, 1, 2]), integers([0] * 3), integers([64] * 3))
    assert present.tolist() == [False, True, False]
    assert total[1] == 11
    assert combine.combines == 1
