from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin import windows as W
from muntin.windows import CumulativeWindow
from tests import naive
from tests.builders import cumulative

WINDOWS = st.builds(
    cumulative, st.integers(1, 30), st.integers(1, 50) | st.integers(1, 10**12), st.integers(-(10**13), 10**13)
)
TIMES = st.integers(-200, 200) | st.integers(-(10**17), 10**17)


def mapping(window: CumulativeWindow, time: int) -> range:
    times = np.array([time])
    return range(int(window.first_containing(times)[0]), int(window.last_containing(times)[0]) + 1)


@given(WINDOWS, TIMES)
def test_mapping_is_naive(window: CumulativeWindow, time: int) -> None:
    assert list(mapping(window, time)) == naive.windows_holding(window, time)
    assert len(mapping(window, time)) <= window.copies


@given(WINDOWS, st.integers(-1000, 1000))
def test_extent_and_mapping_are_inverse(window: CumulativeWindow, window_id: int) -> None:
    start, end = window.start(window_id), window.end(window_id)
    assert (start, end) == (naive.start_of(window, window_id), naive.end_of(window, window_id))
    for inside in (start, end - 1):
        assert window_id in mapping(window, inside)
    for outside in (start - 1, end):
        assert window_id not in mapping(window, outside)


@given(WINDOWS, TIMES)
def test_last_ended(window: CumulativeWindow, time: int) -> None:
    last = window.last_ended(time)
    assert window.end(last) <= time < window.end(last + 1)


@given(WINDOWS, TIMES)
def test_last_ends_is_the_end_of_the_last_window_that_holds_a_time(window: CumulativeWindow, time: int) -> None:
    ends = [window.end(i) for i in naive.windows_holding(window, time)]
    assert window.last_ends(np.array([time])).tolist() == [max(ends)]


@given(st.integers(1, 9), st.integers(1, 20), st.integers(-500, 500), st.integers(-5, 5))
def test_offsets_whole_sizes_apart_are_the_same_window(steps: int, step: int, offset: int, sizes: int) -> None:
    assert cumulative(steps, step, offset) == cumulative(steps, step, offset + sizes * steps * step)


def test_a_day_so_far() -> None:
    # ids 0 1 2   3 4 5   of three steps to a day
    window = cumulative(3, 10)
    assert [(window.start(i), window.end(i)) for i in range(-1, 5)] == [
        (-30, 0),
        (0, 10),
        (0, 20),
        (0, 30),
        (30, 40),
        (30, 50),
    ]
    assert [list(mapping(window, time)) for time in (-1, 0, 9, 10, 29, 30)] == [
        [-1],
        [0, 1, 2],
        [0, 1, 2],
        [1, 2],
        [2],
        [3, 4, 5],
    ]


def test_one_step_is_a_tumbling_window() -> None:
    one, tumbling = W.cumulative("1 hour", "1 hour"), W.tumbling("1 hour")
    times = np.arange(-5, 5) * 1_000_000_000
    assert one.first_containing(times).tolist() == tumbling.first_containing(times).tolist()
    assert one.last_containing(times).tolist() == tumbling.last_containing(times).tolist()
