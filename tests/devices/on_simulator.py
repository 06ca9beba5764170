"""The paper's CUDA kernels under the simulator of numba-cuda. `test_springald` runs this in a process of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config

from muntin.devices.springald import Kernels, Pending, Tree
from tests import naive
from tests.naive import compose_all
from tests.tree.test_ring import AFFINE

PRIME = naive.PRIME


def composed(left: Any, right: Any, into: Any) -> None:
    """A function after another one: it is not commutative."""
    slope, shift = left[0] * right[0] % PRIME, (left[1] * right[0] + right[1]) % PRIME
    into[0], into[1] = slope, shift


KERNELS = Kernels.of(composed)


def states(panes: list[tuple[int, int] | None]) -> tuple[Any, Any]:
    """Where there is no pane, there is nothing to be read."""
    return np.array([each or (-7, -7) for each in panes], dtype=np.int64).reshape(-1, 2), np.array(
        [each is not None for each in panes], dtype=np.bool_
    )


def test_this_is_the_simulator() -> None:
    assert config.ENABLE_CUDASIM


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_pending_panes(data: st.DataObject) -> None:
    """Figure 7: batches of panes, some of them known, with gaps; complete ones leave; the buffer grows."""
    pending = Pending(KERNELS, 2, data.draw(st.integers(1, 4)))
    known: dict[int, tuple[int, int]] = {}
    first = data.draw(st.integers(-5, 5))
    for _ in range(data.draw(st.integers(1, 4))):
        added = data.draw(st.dictionaries(st.integers(first, first + 12), AFFINE, min_size=1, max_size=8))
        ids = np.array(sorted(added, reverse=True), dtype=np.int64)
        pending.add(ids, np.array([added[each] for each in ids.tolist()], dtype=np.int64))
        for number, each in added.items():
            known[number] = compose_all([known[number], each]) if number in known else each
        begin = pending.first_id
        assert begin is not None
        first = data.draw(st.integers(begin, begin + 14))
        found, present = pending.completed(first)
        taken = range(begin, begin + len(found))
        for number, state, is_there in zip(taken, found.tolist(), present.tolist(), strict=True):
            assert is_there == (number in known)
            assert not is_there or tuple(state) == known.pop(number)
        assert all(number >= first for number in known)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_trees(data: st.DataObject) -> None:
    """Figures 9 to 11: built, updated at its oldest leaves and around the end, and all windows of every update."""
    n, count, sp = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    m = n + (count - 1) * sp
    pane = st.none() | AFFINE
    panes = data.draw(st.lists(pane, min_size=m, max_size=m))
    tree, oldest = Tree(KERNELS, 2, m), 0
    tree.build(*states(panes))
    for _ in range(data.draw(st.integers(1, 4))):
        in_order = panes[oldest:] + panes[:oldest]
        found, there = tree.windows(oldest, n, sp, count)
        for i in range(count):
            inside = [each for each in in_order[i * sp : i * sp + n] if each is not None]
            assert there[i] == bool(inside)
            assert not inside or tuple(found[i].tolist()) == compose_all(inside)
        new = data.draw(st.lists(pane, min_size=1, max_size=m))
        tree.update(oldest, *states(new))
        for i, each in enumerate(new):
            panes[(oldest + i) % m] = each
        oldest = (oldest + len(new)) % m
