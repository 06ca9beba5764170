from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import windows as W
from muntin.errors import MuntinError
from muntin.windows import TimeWindow
from tests import naive
from tests.builders import sliding

LENGTHS = st.integers(1, 50) | st.integers(1, 10**12)
WINDOWS = st.builds(sliding, LENGTHS, LENGTHS, st.integers(-(10**13), 10**13))
TIMES = st.integers(-200, 200) | st.integers(-(10**17), 10**17)


def mapping(window: TimeWindow, time: int) -> range:
    times = np.array([time])
    return range(int(window.first_containing(times)[0]), int(window.last_containing(times)[0]) + 1)


@given(WINDOWS, TIMES)
def test_mapping_has_the_ends_of_the_run_of_windows_that_hold_a_time(window: TimeWindow, time: int) -> None:
    held = mapping(window, time)
    for near in (held.start - 1, held.start, held.stop - 1, held.stop):
        assert (window.start(near) <= time < window.end(near)) == (near in held)
    assert len(held) <= window.copies


@given(st.builds(sliding, st.integers(1, 50), st.integers(1, 50), st.integers(-80, 80)), st.integers(-200, 200))
def test_mapping_is_naive(window: TimeWindow, time: int) -> None:
    assert list(mapping(window, time)) == naive.windows_holding(window, time)


@given(WINDOWS, st.integers(-1000, 1000))
def test_extent_and_mapping_are_inverse(window: TimeWindow, window_id: int) -> None:
    start, end = window.start(window_id), window.end(window_id)
    assert end - start == window.size
    assert window_id in mapping(window, start)
    assert window_id in mapping(window, end - 1)
    assert window_id not in mapping(window, start - 1)
    assert window_id not in mapping(window, end)


@given(WINDOWS, TIMES)
def test_last_ended(window: TimeWindow, time: int) -> None:
    last = window.last_ended(time)
    assert window.end(last) <= time < window.end(last + 1)


@given(LENGTHS, LENGTHS, st.integers(-(10**6), 10**6), st.integers(-5, 5))
def test_offsets_whole_slides_apart_are_the_same_window(size: int, slide: int, offset: int, slides: int) -> None:
    window = sliding(size, slide, offset)
    assert window == sliding(size, slide, offset + slides * slide)
    assert 0 <= window.offset < slide


def test_times_between_windows_are_in_none() -> None:
    # windows  [0 1 2)              [10 11 12)
    window = sliding(2, 10)
    assert [list(mapping(window, time)) for time in (-1, 0, 1, 2, 9, 10)] == [[], [0], [0], [], [], [1]]


def test_times_before_1970() -> None:
    # window -1: [-10 … -1], window 0: [0 … 9]
    window = W.tumbling("10 us")
    assert [list(mapping(window, time)) for time in (-11, -10, -1, 0)] == [[-2], [-1], [-1], [0]]


def test_copies() -> None:
    assert W.sliding("1 hour", "1 minute").copies == 60
    assert W.sliding("10 s", "3 s").copies == 4
    assert W.sliding("1 s", "1 minute").copies == 1


def test_labels() -> None:
    assert W.tumbling("90 minutes").label == "tumbling(1 hour 30 minutes)"
    assert W.sliding("1 hour", "5 minutes", offset="1 minute").label == "sliding(1 hour, 5 minutes, offset=1 minute)"
    assert W.tumbling("1 day").title == "tumbling(1 day)"
    assert W.tumbling("1 day", name="daily").title == "daily"


@pytest.mark.parametrize("length", ["0 seconds", "-5 minutes", timedelta(0)])
def test_lengths_are_positive(length: Any) -> None:
    with pytest.raises(MuntinError, match="size must be longer than zero"):
        W.tumbling(length)
    with pytest.raises(MuntinError, match="slide must be longer than zero"):
        W.sliding("5 minutes", length)


@pytest.mark.parametrize("name", ["", 5])
def test_names_are_non_empty_strings(name: Any) -> None:
    with pytest.raises(MuntinError, match="name must be a non-empty string"):
        W.tumbling("5 minutes", name=name)


def test_offset_is_a_duration() -> None:
    with pytest.raises(MuntinError, match="offset is 'soon', which is not a duration"):
        W.tumbling("5 minutes", offset="soon")
