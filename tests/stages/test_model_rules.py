"""The rules of the window models, one by one, on a handful of tuples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine import state as values
from muntin.engine.operators import numbered, ordered
from muntin.engine.store import HotCache
from muntin.errors import StateError
from muntin.panes import table as table_module
from muntin.windows.slide_by import MOST_REPEATS
from tests import builders, naive_models, strategies
from tests.builders import Stream, answer, answer_table, make_plan, pack, read, row, tiny, us
from tests.naive import Row

TYPES = builders.TYPES | strategies.GROWING


def told(stream: Stream, rows: Sequence[Row], watermark: int) -> list[tuple[int, int, int, int]]:
    """Id, start, end and count of what a batch tells."""
    found, _ = stream.batch(rows, watermark)
    return [(place[3], place[1], place[0], values["count"]) for share in found for place, values in share]


def table(window: W.Window, rows: Sequence[Row]) -> list[tuple[int, int, int, int]]:
    plan = make_plan([window], (), types=TYPES)
    found, _ = read(plan, answer_table(plan, pack(plan, [rows])))
    return [(place[3], place[1], place[0], values["count"]) for place, values in found]


def stream_of(*windows: W.Window) -> Stream:
    return Stream(make_plan([replace(each, name=f"w{i}") for i, each in enumerate(windows)], (), streaming=True))


def at(*times: int) -> list[Row]:
    return [{**row(time), "d": None, "e": None} for time in times]


def test_cumulative_windows_grow_and_start_anew() -> None:
    #  0    10    20    30    40    50    60
    #  [ 1   )                [ 31  )
    #  [ 1      12  )         [ 31        )
    #  [ 1      12   25 )     [ 31              )
    assert table(builders.cumulative(3, 10), at(1, 12, 25, 31)) == [
        (0, 0, 10, 1),
        (1, 0, 20, 2),
        (2, 0, 30, 3),
        (3, 30, 40, 1),
        (4, 30, 50, 1),
        (5, 30, 60, 1),
    ]


def test_sessions_part_where_more_than_the_gap_passes() -> None:
    # Exactly the gap apart is together, one more is not.
    assert table(W.session(us(10)), at(31, 0, 40, 20, 10)) == [(0, 0, 30, 3), (31, 31, 50, 2)]


def test_a_session_closes_when_the_watermark_reaches_its_end() -> None:
    stream = stream_of(W.session(us(10)))
    assert told(stream, at(0, 5), 14) == []
    assert told(stream, [], 15) == [(0, 0, 15, 2)]
    assert told(stream, [], 100) == []


def test_a_tuple_makes_two_open_sessions_one() -> None:
    stream = stream_of(W.session(us(10)))
    assert told(stream, at(0, 16), 9) == []
    assert told(stream, at(8), 25) == []
    assert told(stream, [], 26) == [(0, 0, 26, 3)]


def test_a_row_that_is_in_time_never_joins_a_session_that_was_told() -> None:
    stream = stream_of(W.session(us(10)))
    assert told(stream, at(0), 10) == [(0, 0, 10, 1)]
    # At 0 the session has closed; at 1 there is room for another, though it is within the gap of the first.
    assert told(stream, at(0, 1), 11) == [(1, 1, 11, 1)]
    assert stream.total("late_rows") == 1


def test_a_session_that_has_closed_does_not_go_on_at_its_very_end() -> None:
    # In a table the two are one session: they are exactly the gap apart.
    stream = stream_of(W.session(us(10)))
    assert told(stream, at(0), 10) == [(0, 0, 10, 1)]
    assert told(stream, at(10), 20) == [(10, 10, 20, 1)]
    assert stream.total("late_rows") == 0
    assert table(W.session(us(10)), at(0, 10)) == [(0, 0, 20, 2)]


def test_only_complete_count_windows() -> None:
    #  0 1 2 3 4 10 11
    #  [-----)
    #      [------)
    #          [------   never complete
    assert table(W.count(4, 2), at(0, 1, 2, 3, 4, 10, 11)) == [(0, 0, 3, 4), (1, 2, 10, 4)]
    assert table(W.count(2, 3), at(0, 1, 2, 3, 4)) == [(0, 0, 1, 2), (1, 3, 4, 2)]
    assert table(W.count(5), at(0, 1, 2, 3)) == []
    assert table(W.count(5), at(0, 0, 0, 0, 0)) == [(0, 0, 0, 5)]


def partials(stream: Stream, rows: Sequence[Row], watermark: int) -> list[tuple[int, int, int, int, bool]]:
    found, _ = stream.batch(rows, watermark)
    return [
        (place[3], place[1], place[0], values["count"], values["partial"]) for share in found for place, values in share
    ]


def test_a_count_window_that_waits_too_long_is_told_as_it_stands_and_again_when_complete() -> None:
    stream = stream_of(W.count(2, max_wait=us(5)))
    assert partials(stream, at(1, 2, 3), 4) == [(0, 1, 2, 2, False)]
    assert partials(stream, [], 7) == []
    assert partials(stream, [], 8) == [(1, 3, 3, 1, True)]
    assert partials(stream, [], 9) == []
    # Behind tuple 9 the next window is due, and holds nothing.
    assert partials(stream, at(9), 20) == [(1, 3, 9, 2, False)]


def test_a_pause_between_two_tuples_is_told_though_both_are_there() -> None:
    stream = stream_of(W.count(3, max_wait=us(5)))
    assert partials(stream, at(0, 4, 9), 10) == [(0, 0, 4, 2, True), (0, 0, 9, 3, False)]


def test_only_a_wait_makes_a_column_partial() -> None:
    waiting, other = W.count(2, max_wait="1 second", name="a"), W.count(2, name="b")
    assert "partial" not in make_plan([other, W.session("1 second")]).result_schema.names
    plan = make_plan([waiting, other, W.session("1 second")], ())
    names = plan.result_schema.names
    assert names[:4] == ["window", "window_id", "window_name", "partial"]
    found, _ = read(plan, answer_table(plan, pack(plan, [[row(0), row(1), row(2)]])))
    assert [(place[2], values["count"]) for place, values in found if values["partial"]] == [("a", 1)]


def test_slide_by_tuple_goes_by_time() -> None:
    #  0    4    9  10 10 10   21
    #            ^        ^         every third tuple triggers
    # The tuples at 10 are all in the window of the last of them; that at 0 is 10 before it, and out.
    assert table(W.slide_by_tuple(us(10), 3), at(0, 4, 9, 10, 10, 10, 21)) == [(0, -1, 9, 3), (1, 0, 10, 5)]
    assert table(W.slide_by_tuple(us(10), 2), at(0, 10, 10)) == [(0, 0, 10, 2)]
    assert table(W.slide_by_tuple(us(10), 4), at(0, 1, 2)) == []


def test_what_the_next_trigger_may_reach_is_kept() -> None:
    stream = stream_of(W.slide_by_tuple(us(10), 3))
    assert told(stream, at(11, 12), 20) == []
    assert told(stream, at(20), 21) == [(0, 10, 20, 3)]


def test_slide_by_time_repeats_what_is_still_the_latest() -> None:
    #  3 5 8 | 20 | 30 | 31 39 |
    expected = [(0, 5, 10, 2), (1, 5, 20, 2), (2, 5, 30, 2), (3, 31, 40, 2)]
    assert table(W.slide_by_time(2, us(10)), at(3, 5, 8, 31, 39)) == expected


def test_a_repeat_comes_out_with_the_next_tuple() -> None:
    stream = stream_of(W.slide_by_time(2, us(10)))
    assert told(stream, at(3, 5, 8), 10) == [(0, 5, 10, 2)]
    assert told(stream, [], 25) == []
    assert told(stream, at(31, 39), 31) == []  # the tuple at 31 is not settled before the watermark has passed it
    assert told(stream, [], 32) == [(1, 5, 20, 2), (2, 5, 30, 2)]
    assert told(stream, [], 40) == [(3, 31, 40, 2)]
    assert told(stream, [], 1000) == []


HOUR = 3_600_000_000
AGES = 1000 * 365 * 24 * HOUR


def test_a_key_that_is_silent_for_ages_pauses() -> None:
    window = W.slide_by_time(3, "1 hour")
    last = AGES // HOUR
    expected = [(w, 0, (w + 1) * HOUR, 1) for w in range(MOST_REPEATS + 1)] + [(last, 0, AGES + HOUR, 2)]
    assert table(window, at(0, AGES)) == expected
    stream = stream_of(window)
    found = told(stream, at(0), HOUR)
    for watermark in (2 * HOUR, AGES // 2, AGES):  # nobody knows yet that the key goes on
        stream.cache = HotCache(capacity=8)
        assert told(stream, [], watermark) == []
    found += told(stream, at(AGES), AGES + 1)
    stream.cache = HotCache(capacity=8)
    found += told(stream, [], AGES + HOUR) + told(stream, [], 2 * AGES)
    assert found == expected


@given(st.lists(st.integers(-60, 60), min_size=1, max_size=8))
def test_a_silent_key_pauses_after_a_number_of_repeats(times: list[int]) -> None:
    window, tuples = W.slide_by_time(2, us(3)), at(*sorted(times))
    with patch.object(ordered, "MOST_REPEATS", 2), patch.object(naive_models, "MOST_REPEATS", 2):
        held = naive_models.slide_by_time_windows(window, tuples, naive_models.BEHIND_ALL)
        assert table(window, tuples) == [(each.window_id, each.start, each.end, len(each.rows)) for each in held]


@pytest.mark.parametrize(
    ("window", "results"),
    [
        (W.sliding("2 hours", "1 hour"), 4),
        (W.tumbling("1 hour"), 2),
        (W.cumulative("2 hours", "1 hour"), 4),
        (W.session("1 hour"), 2),
        (W.count(1, max_wait="1 hour"), 2),
        (W.count(2, 1, max_wait="1 hour"), 3),
        (W.slide_by_tuple("1 hour", 1), 2),
        (W.delta("n", 10, 1), 0),
        (W.delta("n", 1 << 60, 1), 1),
    ],
)
def test_empty_stretches_cost_nothing(window: W.Window, results: int) -> None:
    plan = make_plan([window], ())
    rows = [row(0, n=0), row(AGES, n=1 << 50)]
    (found,) = answer(plan, [rows])
    assert len(found) == results
    stream = Stream(make_plan([window], (), streaming=True))
    batches = [stream.batch([row(0, n=0)], 0), stream.batch([], AGES), stream.batch(rows[1:], AGES + 1)]
    batches += [stream.batch([], 3 * AGES)]
    assert sum(len(share) for found, _ in batches for share in found) == results


def deltas(*values: int | None) -> list[Row]:
    return [{**row(time), "d": value, "e": None} for time, value in enumerate(values)]


def test_delta_windows_over_what_has_grown() -> None:
    # δ   0 3 5 6 11 12 30 31 36
    #     ^     ^     ^  ^     ^    δ > δ(last trigger) + 5
    # The windows of the first and of 30 hold nothing.
    rows = deltas(0, 3, 5, 6, 11, 12, 30, 31, 36)
    assert table(W.delta("d", 10, 5), rows) == [(1, 0, 3, 3), (2, 1, 5, 4), (4, 6, 8, 2)]


def test_a_delta_that_decreases_or_is_missing_is_bad() -> None:
    plan = make_plan([W.delta("d", 10, 5)], (), streaming=True, types=TYPES)
    stream = Stream(plan)
    assert told(stream, deltas(0, None, 7, 6), 3) == [(1, 0, 2, 1)]
    assert stream.total("invalid_rows") == 1
    assert told(stream, [], 4) == []
    assert stream.total("invalid_rows") == 1
    assert stream.total("total_invalid_rows") == 2
    # 6 is behind 7, which a batch before this one has settled.
    assert told(stream, [{**row(9), "d": 6, "e": None}, {**row(9), "d": 13, "e": None}], 10) == [(2, 2, 9, 1)]
    assert stream.total("total_invalid_rows") == 3


def test_a_tuple_waits_until_the_watermark_has_passed_it() -> None:
    stream = stream_of(W.count(1))
    assert told(stream, at(5, 7), 5) == []
    assert stream.total("tuples") == 2
    # Not late: it is at the watermark of the batch before, not behind it.
    assert told(stream, at(5), 6) == [(0, 5, 5, 1), (1, 5, 5, 1)]
    assert stream.total("tuples") == 1
    assert told(stream, at(5), 8) == [(2, 7, 7, 1)]
    assert stream.total("late_rows") == 1
    assert stream.total("tuples") == 0


def test_a_row_is_late_only_if_it_is_too_late_for_all_windows() -> None:
    stream = stream_of(W.count(1), W.session(us(10)), builders.sliding(20, 20))
    stream.batch([], 15)
    assert told(stream, at(14), 15) == []
    assert stream.total("late_rows") == 0
    # Of 14, the count window hears nothing, the session and the time window do.
    assert told(stream, [], 24) == [(0, 0, 20, 1), (14, 14, 24, 1)]
    stream.batch(at(3), 24)
    assert stream.total("late_rows") == 1


def test_a_row_that_is_too_late_for_a_session_makes_none_though_another_window_takes_it() -> None:
    stream = stream_of(W.session(us(10)), builders.sliding(100, 100))
    stream.batch([], 20)
    assert told(stream, at(10), 50) == []
    assert stream.total("late_rows") == 0
    assert told(stream, at(45), 100) == [(0, 0, 100, 2), (45, 45, 55, 1)]


def test_many_windows_close_at_once() -> None:
    stream = stream_of(W.count(3, 1))
    assert told(stream, at(*range(1, 101)), 0) == []
    assert told(stream, [], 1000) == [(i, i + 1, i + 3, 3) for i in range(98)]


@pytest.mark.parametrize("model", strategies.MODELS)
@settings(max_examples=10)
@given(data=st.data())
def test_no_rows_no_windows(model: str, data: st.DataObject) -> None:
    plan = make_plan([data.draw(strategies.MODELS[model])], ("k",), ["count", "composed"], streaming=True, types=TYPES)
    stream = Stream(plan)
    assert stream.batch([], 0) == ([[]], [])
    assert stream.batch([{**row(None), "d": 1, "e": 1.0}], 100) == ([[]], [])
    assert stream.total("total_invalid_rows") == 1
    assert stream.states[0].values == {}


def test_every_of_the_stream_and_more() -> None:
    rows = deltas(*range(10))
    assert table(W.count(10), rows) == [(0, 0, 9, 10)]
    assert table(W.count(11), rows) == []
    assert table(W.slide_by_tuple(us(100), 10), rows) == [(0, -91, 9, 10)]
    assert table(W.slide_by_tuple(us(100), 11), rows) == []
    assert table(W.slide_by_time(100, us(100)), rows) == [(0, 0, 100, 10)]
    assert table(W.delta("d", 100, 8), rows) == [(1, 0, 9, 9)]
    assert table(W.delta("d", 100, 9), rows) == []


@pytest.mark.parametrize("window", [W.count(8, 4), W.slide_by_tuple(us(30), 2), W.slide_by_time(3, us(7))])
def test_a_long_run_keeps_a_bounded_state(window: W.Window) -> None:
    stream = stream_of(window)
    leaves, sizes = [], []
    with tiny(4, 64, 1 << 20):
        for i in range(160):
            stream.batch(at(i, i + 1, i), i - 5)
            leaves.append(stream.total("panes"))
            sizes.append(stream.total("state_bytes"))
    assert max(leaves) <= 100
    assert max(sizes[80:]) <= max(sizes[:80]) + 1000
    assert stream.total("total_rows") == 480


def test_the_log_is_written_anew_once_most_of_it_is_of_no_use() -> None:
    stream = stream_of(W.count(2))
    with tiny(1 << 20, 10, 1 << 20):
        for i in range(50):
            stream.batch(at(i), i)
            assert sum(segment.leaves for segment in stream.store(0).header.segments) <= 2 * 3 + 10
            stream.cache = HotCache(capacity=1)
    assert stream.total("total_results") == 24


def test_a_key_is_numbered_on_from_where_it_was_however_long_ago() -> None:
    plan = make_plan([W.count(2)], ("k",), streaming=True)
    stream = Stream(plan)
    with tiny(2, 0, 1 << 20):
        for i in range(1, 40):
            stream.batch([row(i, k="often"), *([row(i, k="seldom")] if i in (1, 20, 39) else [])], i)
            stream.cache = HotCache(capacity=1)
        found, _ = stream.batch([], 100)
    assert [(place[3], place[4]) for place, _ in found[0]] == []
    assert stream.total("total_results") == 19 + 1


def test_a_key_that_was_silent_for_long_repeats_a_bounded_number_at_a_time() -> None:
    plan = make_plan([W.slide_by_time(2, us(10))], (), ["count", "sum_n"], types=TYPES)
    rows = [{**row(t, n=t), "d": 0, "e": None} for t in (3, 4, 95, 96, 130)]
    (whole,) = answer(plan, [rows])
    with patch.object(ordered, "MOST_ANSWERS", 3):
        (cut,) = answer(plan, [rows])
    assert [place[0] for place, _ in whole] == list(range(10, 150, 10))
    assert dict(cut) == dict(whole)
    assert len(cut) == len(whole)


def test_a_long_segment_is_written_in_parts() -> None:
    plan = make_plan([W.count(50)], (), ["count", "sum_n"], streaming=True, types=TYPES)
    stream = Stream(plan)
    with patch.object(values, "PART_BYTES", 300):
        stream.batch([{**row(t, n=t), "d": 0, "e": None} for t in range(60)], 0)
        assert max(map(len, stream.states[0].values.values())) <= 300
        stream.cache = HotCache(8)
        ((found,), _) = stream.batch([], 1000)
        assert [values for _, values in found] == [{"count": 50, "sum_n": sum(range(50))}]
        stream.cache = HotCache(8)
        stream.states[0].values.pop(next(name for name in stream.states[0].values if name.endswith(".1")))
        with pytest.raises(StateError, match="missing"):
            stream.batch([], 2000)


# Keys that are forgotten


@pytest.mark.parametrize(
    "window",
    [
        W.count(3, forget_after=us(20)),
        W.slide_by_tuple(us(20), 3, forget_after=us(20)),
        W.slide_by_time(3, us(20), forget_after=us(20)),
        W.delta("d", 30, 50, forget_after=us(20)),
    ],
    ids=lambda window: window.label,
)
def test_keys_that_never_come_back_leave_nothing(window: W.Window) -> None:
    stream = Stream(make_plan([window], ("k",), streaming=True, types=TYPES))
    sizes = []
    with tiny(4, 64, 1 << 20), patch.object(table_module, "_SLACK", 64):
        for i in range(300):
            visit = {**row(i, k=f"visitor {i}"), "d": i, "e": None}
            stream.batch([visit, visit], i - 1)
            sizes.append(stream.total("state_bytes"))
    assert stream.total("panes") <= 60
    assert max(sizes[150:]) <= max(sizes[:150]) + 1000
    stream.batch([], 10_000)
    assert stream.total("panes") == stream.total("state_bytes") == 0
    assert stream.states[0].values == {}


def test_a_key_is_forgotten_by_the_time_between_its_rows_wherever_batches_end() -> None:
    #  0 1 2          12 13 14  24
    #  [-0-)[-1       [-0--)[-1-----   exactly 10 apart is forgotten, 9 is not
    times = (0, 1, 2, 12, 13, 14, 23)
    window = W.count(2, forget_after=us(10))
    expected = [(0, 0, 1, 2), (0, 12, 13, 2), (1, 14, 23, 2)]
    assert table(window, at(*times)) == expected
    for cut in range(len(times) + 1):
        for cold in (False, True):
            stream = stream_of(window)
            found = told(stream, at(*times[:cut]), times[cut - 1] if cut else 0)
            stream.cache = HotCache(capacity=1) if cold else stream.cache
            assert found + told(stream, at(*times[cut:]), 100) == expected


def test_a_meter_that_is_replaced_counts_again_once_its_key_is_forgotten() -> None:
    readings = [(0, 100), (1, 103), (2, 0), (5, 1), (11, 2), (12, 4), (13, 9)]
    rows = [{**row(time), "d": d, "e": None} for time, d in readings]
    window = W.delta("d", 10, 1, forget_after=us(10))
    # From 2 on it is smaller than 103, and invalid, until 10 have passed since the valid row at 1.
    assert table(window, rows) == [(1, 0, 1, 1), (1, 11, 12, 1), (2, 11, 13, 2)]
    assert table(replace(window, forget_after=None), rows) == [(1, 0, 1, 1)]
    for cut in range(len(rows) + 1):
        stream = Stream(make_plan([window], (), streaming=True, types=TYPES))
        found = told(stream, rows[:cut], rows[cut - 1]["t"] + 1 if cut else 0)
        stream.cache = HotCache(capacity=1)
        assert found + told(stream, rows[cut:], 100) == [(1, 0, 1, 1), (1, 11, 12, 1), (2, 11, 13, 2)]
        assert stream.total("total_invalid_rows") == 2


@pytest.mark.parametrize("per_microsecond", [1, 16])
def test_more_rows_than_a_microsecond_has_numbers(per_microsecond: int) -> None:
    """A key of so many rows is kept until the numbers of its next run are free."""
    window = W.count(50, 25, forget_after=us(3))
    stream, oracle = stream_of(window), []
    with tiny(3, 1, 1 << 20), patch.object(numbered, "PER_MICROSECOND", per_microsecond):
        for first in (1, 5, 9):
            oracle += [(0, first, first, 50), (1, first, first, 50), (2, first, first, 50)]
            found = told(stream, at(*[first] * 110), first)
            found += told(stream, [], first + 3)
            assert found == oracle[-3:]
            stream.cache = HotCache(capacity=1)
        assert told(stream, [], 1000) == []
    assert stream.total("panes") == 0
