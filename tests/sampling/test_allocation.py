"""Basic congress: every group has its share of the budget."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin.statistics.congress import congress, rounded_down

WINDOWS = st.lists(st.lists(st.integers(1, 1_000_000), min_size=1, max_size=30), min_size=1, max_size=5)


@given(WINDOWS, st.integers(1, 2_000))
def test_no_budget_is_exceeded_and_no_group_forgotten(windows: list[list[int]], budget: int) -> None:
    sizes = np.array([size for window in windows for size in window])
    number = np.repeat(np.arange(len(windows)), [len(window) for window in windows])
    given_sizes = congress(sizes, number, budget)
    assert np.all(given_sizes <= sizes)
    for index, window in enumerate(windows):
        own = given_sizes[number == index]
        assert own.sum() <= budget
        if len(window) > budget:
            assert not own.any()
        else:
            assert np.all(own >= 1)
            # Nearly all of the budget is used, if there are tuples enough.
            assert own.sum() >= min(sum(window), budget) - 2 * len(window) or own.sum() >= 0.8 * budget


def test_house_and_senate() -> None:
    """One group has nine tenths of the tuples: the house gives it most, the senate keeps the others visible."""
    sizes = np.array([90_000, 2_500, 2_500, 2_500, 2_500])
    shares = congress(sizes, np.zeros(5, dtype=np.int64), 1_000) / 1_000
    house_and_senate = np.array([0.9, 0.2, 0.2, 0.2, 0.2])
    assert np.allclose(shares, house_and_senate / house_and_senate.sum(), atol=0.01)


def test_what_small_groups_do_not_need_goes_to_the_others() -> None:
    sizes = np.array([10_000, 3, 3, 3, 3])
    found = congress(sizes, np.zeros(5, dtype=np.int64), 500)
    assert found.tolist()[1:] == [3, 3, 3, 3]
    assert 480 <= found[0] <= 488


@given(st.integers(0, 1 << 40))
def test_rounding_keeps_eight_ninths(size: int) -> None:
    (found,) = rounded_down(np.array([size])).tolist()
    assert found <= size
    assert found >= 8 / 9 * size
