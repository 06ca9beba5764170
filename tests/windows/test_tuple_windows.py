"""Count windows and the hybrids: extent and mapping are inverse to each other, on the sorted times of one key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin import windows as W
from muntin.arrays import Int64Array
from muntin.windows import CountWindow, SessionWindow, SlideByTime, SlideByTuple
from tests import naive_models, strategies
from tests.builders import us

SORTED_TIMES = strategies.sized_lists(st.integers(-30, 30) | st.integers(-2, 2), 1, 30).map(sorted)
Bounds = tuple[Int64Array, Int64Array]


def ranges(bounds: Bounds) -> list[range]:
    """From the first to the last of each, both included."""
    first, last = bounds
    return [range(a, b + 1) for a, b in zip(first.tolist(), last.tolist(), strict=True)]


def extents(bounds: Bounds) -> list[range]:
    """From the first of each to before its end."""
    first, end = bounds
    return [range(a, b) for a, b in zip(first.tolist(), end.tolist(), strict=True)]


def check_inverse(held: Sequence[range], windows_of: Sequence[range], ids: Sequence[int]) -> None:
    """Tuple i is in the extent of w if and only if w is in the mapping of i."""
    for window_id, extent in zip(ids, held, strict=True):
        for index, mapped in enumerate(windows_of):
            assert (index in extent) == (window_id in mapped), (index, window_id)


def tuples_of(times: Sequence[int]) -> list[dict[str, Any]]:
    return [{"t": time, "i": i} for i, time in enumerate(times)]


def held_by(found: Sequence[naive_models.WindowContents]) -> dict[int, list[int]]:
    return {each.window_id: [tuple_["i"] for tuple_ in each.rows] for each in found}


@given(strategies.COUNT_WINDOWS, st.integers(1, 40))
def test_count_extent_and_mapping_are_inverse(window: CountWindow, tuples: int) -> None:
    ids = np.arange(tuples)
    check_inverse(extents(window.extent(ids)), ranges(window.mapping(np.arange(tuples))), ids.tolist())
    assert all(mapped.start >= 0 for mapped in ranges(window.mapping(np.arange(tuples))))


@given(strategies.COUNT_WINDOWS, st.integers(0, 60))
def test_count_windows_that_are_complete(window: CountWindow, tuples: int) -> None:
    ids = np.arange(tuples + 1)
    complete = [extent.stop <= tuples for extent in extents(window.extent(ids))]
    assert complete == sorted(complete, reverse=True)  # one after the other
    assert window.complete(np.array([tuples])).tolist() == [sum(complete)]


@given(strategies.SLIDES_BY_TUPLE, SORTED_TIMES)
def test_slide_by_tuple_extent_and_mapping_are_inverse(window: SlideByTuple, drawn: list[int]) -> None:
    times = np.array(drawn)
    ids = np.arange(len(times) // window.every)
    held = extents(window.extent(ids, times))
    check_inverse(held, ranges(window.mapping(np.arange(len(times)), times)), ids.tolist())
    found = list(naive_models.slide_by_tuple_windows(window, tuples_of(drawn), 0))
    assert {i: list(extent) for i, extent in zip(ids.tolist(), held, strict=True)} == held_by(found)


@given(strategies.SLIDES_BY_TUPLE, st.integers(1, 40))
def test_slide_by_tuple_triggers(window: SlideByTuple, tuples: int) -> None:
    index = np.arange(tuples)
    triggers = index[(index + 1) % window.every == 0]
    assert triggers.tolist() == [i for i in range(tuples) if (i + 1) % window.every == 0]
    assert window.triggered(triggers).tolist() == list(range(len(triggers)))
    assert window.trigger(np.arange(len(triggers))).tolist() == triggers.tolist()


@given(strategies.SLIDES_BY_TIME, SORTED_TIMES)
def test_slide_by_time_extent_and_mapping_are_inverse(window: SlideByTime, drawn: list[int]) -> None:
    times = np.array(drawn)
    ids = np.arange(drawn[0] // window.every, drawn[-1] // window.every + 1)
    held = extents(window.extent(ids, times))
    mapped = ranges(window.mapping(np.arange(len(times)), times))
    check_inverse(held, mapped, ids.tolist())
    assert all(each.stop <= ids[-1] + 1 for each in mapped)
    found = list(naive_models.slide_by_time_windows(window, tuples_of(drawn), naive_models.BEHIND_ALL))
    assert {i: list(extent) for i, extent in zip(ids.tolist(), held, strict=True)} == held_by(found)


@given(strategies.SLIDES_BY_TIME, st.integers(-100, 100))
def test_slide_by_time_is_triggered_first_behind_the_tuple(window: SlideByTime, time: int) -> None:
    first = window.triggered(np.array([time]))
    assert time < window.end(first)[0] <= time + window.every


@given(strategies.SESSIONS, SORTED_TIMES)
def test_sessions_last_until_the_gap_has_passed(window: SessionWindow, times: list[int]) -> None:
    ends = window.last_ends(np.array(times)).tolist()
    for session in naive_models.sessions(window, tuples_of(times)):
        first, last = session[0]["i"], session[-1]["i"]
        # The tuples of a session are those that its neighbours' ends reach.
        assert all(times[i + 1] <= ends[i] for i in range(first, last))
        assert last + 1 == len(times) or times[last + 1] > ends[last]


def test_a_tuple_is_too_late_once_the_watermark_has_passed_it() -> None:
    for window in (W.count(3), W.slide_by_tuple(us(5), 2), W.slide_by_time(5, us(2)), W.delta("d", 1, 1)):
        assert window.last_ends(np.array([-7, 0, 9])).tolist() == [-6, 1, 10]


def test_formula_1_by_hand() -> None:
    #  0 1 2 3 4 5 6
    #  [---)
    #      [---)
    #          [---)
    window = W.count(3, 2)
    assert extents(window.extent(np.arange(3))) == [range(3), range(2, 5), range(4, 7)]
    assert [list(each) for each in ranges(window.mapping(np.arange(5)))] == [[0], [0], [0, 1], [1], [1, 2]]
    # Slide larger than size: tuple 2 is in none.
    assert [list(each) for each in ranges(W.count(2, 3).mapping(np.arange(5)))] == [[0], [0], [], [1], [1]]


def test_a_tuple_long_before_the_next_trigger_is_in_no_window() -> None:
    window = W.slide_by_tuple(us(10), 3)
    times = np.array([0, 50, 60, 61, 61, 61])
    #                        ^           ^
    assert [list(each) for each in ranges(window.mapping(np.arange(6), times))] == [[], [], [0, 1], [1], [1], [1]]


@given(strategies.SESSIONS, SORTED_TIMES)
def test_session_extent_and_mapping_are_inverse(window: SessionWindow, times: list[int]) -> None:
    of_each = window.mapping(np.arange(len(times)), np.array(times))
    ids = np.arange(int(of_each[-1]) + 1)
    held = extents(window.extent(ids, np.array(times)))
    check_inverse(held, ranges((of_each, of_each)), ids.tolist())
    expected = naive_models.sessions(window, tuples_of(times))
    assert [[each["i"] for each in session] for session in expected] == [list(extent) for extent in held]
