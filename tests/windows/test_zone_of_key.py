"""Calendars in the time zone of each key: streams and tables against plain loops over the clocks of every zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.store import Header
from muntin.engine.zoned.store import contents
from muntin.features.compression.policy import Compression
from muntin.features.sampling.policy import Approximation
from muntin.features.updates.policy import Updates
from tests import naive, strategies
from tests.builders import Step, Stream, aggregations, answer, check, make_plan, row, tiny
from tests.naive import Row
from tests.updates import naive_updates
from tests.windows.test_calendar import BEGIN, DAY, END, ODD, ZONES

BAD = [None, "Mars/Olympus", "", "America", "../etc/passwd", "UTC\0"]
HOUR = 3_600 * 10**6
SUMMER = int(datetime(2011, 3, 20, tzinfo=timezone.utc).timestamp() * 10**6)
"""A week before clocks change in Berlin."""
CALENDARS: st.SearchStrategy[W.CalendarWindow] = st.one_of(
    st.builds(
        lambda size, slide: W.calendar(f"{size} days", f"{slide} days", zone_column="w"),
        st.integers(1, 4),
        st.integers(1, 4),
    ),
    st.builds(
        lambda slide, start: W.calendar("2 weeks", f"{slide} weeks", week_start=start, zone_column="w"),
        st.integers(1, 2),
        st.sampled_from(["monday", "sunday"]),
    ),
    st.builds(
        lambda size, slide: W.calendar(f"{size} months", f"{slide} months", zone_column="w"),
        st.integers(1, 3),
        st.integers(1, 2),
    ),
)
BESIDE: st.SearchStrategy[list[W.Window]] = st.sampled_from(
    [[], [W.tumbling("5 hours")], [W.sliding("2 days", "1 day"), W.calendar("1 week", zone="Asia/Tokyo")]]
)
LIMITS = st.tuples(st.integers(2, 8), st.sampled_from([0, 1, 1 << 12]), st.sampled_from([1, 3, 1 << 20]))


def zoned_rows(times: st.SearchStrategy[Any], zones: Sequence[Any], max_size: int = 8) -> st.SearchStrategy[list[Row]]:
    rows = st.builds(
        lambda t, k, zone, x: row(t, k, w=zone, x=float(x), n=x),
        times,
        st.sampled_from(["a", "b", None]),
        st.sampled_from(zones),
        st.integers(-5, 5),
    )
    return st.lists(rows, max_size=max_size)


def named(windows: Sequence[W.Window]) -> list[W.Window]:
    return [replace(window, name=f"w{index}") for index, window in enumerate(windows)]


def invalid(rows: Sequence[Row]) -> int:
    return sum(each["t"] is None or each["w"] not in naive.available_timezones() for each in rows)


def shifted(rows: Sequence[Row], by: int) -> list[Row]:
    return [{**each, "t": None if each["t"] is None else each["t"] + by} for each in rows]


STEPS = strategies.steps(
    zoned_rows(st.none() | st.integers(-3 * DAY, 9 * DAY) | st.integers(0, HOUR), [*ODD[:6], *BAD], 6),
    [0, HOUR, DAY // 2, 5 * DAY, 40 * DAY],
    max_size=6,
)


@settings(max_examples=60)
@given(
    st.lists(CALENDARS, min_size=1, max_size=2),
    BESIDE,
    st.lists(st.sampled_from(["count", "sum_n", "first_x", "median_x"]), min_size=1, max_size=3, unique=True),
    strategies.SHARDS,
    STEPS,
    LIMITS,
    st.booleans(),
)
def test_streams_are_naive(
    calendars: list[W.CalendarWindow],
    beside: list[W.Window],
    names: list[str],
    shards: tuple[int, ...],
    steps: list[Step],
    limits: tuple[int, int, int],
    compresses: bool,
) -> None:
    windows = named([*calendars, *beside])
    options = [Compression(DAY)] if compresses and "median_x" in names else []
    plan = make_plan(windows, ("k", "w"), names, shards=shards, streaming=True, emit_late=True, options=options)
    with tiny(*limits):
        stream, judge = Stream(plan), naive.Stream(windows, plan.keys, aggregations(plan))
        counted = 0
        for step in [Step([], SUMMER, 1, False, False), *steps, Step([], 400 * DAY, 1, False, False)]:
            rows, watermark = shifted(step.rows, judge.watermark), judge.watermark + step.advance
            found, late = stream.run(step, rows, watermark)
            expected, too_late = judge.batch(rows, watermark)
            check([result for share in found for result in share], expected)
            assert sorted(map(repr, late)) == sorted(map(repr, too_late))
            counted += invalid(rows)
            assert stream.total("total_invalid_rows") == counted
            assert stream.total("late_rows") == len(late)
        for state in stream.states.values():
            assert not state.values  # nothing is left, and so no zone
            assert state.header is not None
            assert not contents(Header.decode(state.header))


@settings(max_examples=60)
@given(
    st.lists(CALENDARS, min_size=1, max_size=2),
    BESIDE,
    zoned_rows(st.none() | st.integers(BEGIN, END), [*ZONES, *BAD], 12),
    st.sampled_from([(0,), (0, 1, 2)]),
)
def test_tables_of_all_zones_are_naive(
    calendars: list[W.Window], beside: list[W.Window], rows: list[Row], shards: tuple[int, ...]
) -> None:
    windows = named([*calendars, *beside])
    plan = make_plan(windows, ("k", "w"), ["count", "sum_n"], shards=shards)
    found = [result for share in answer(plan, [rows[:5], rows[5:]]) for result in share]
    check(found, naive.answers(rows, windows, plan.keys, aggregations(plan)))


def quality_apart(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "quality"}


@settings(max_examples=30)
@given(
    CALENDARS,
    st.sampled_from([Updates(True, None, None), Updates(True, None, DAY), Updates(False, None, 3 * DAY)]),
    strategies.SHARDS,
    STEPS,
    LIMITS,
)
def test_updates_are_naive(
    window: W.Window, policy: Updates, shards: tuple[int, ...], steps: list[Step], limits: tuple[int, int, int]
) -> None:
    plan = make_plan([window], ("w", "k"), ["count", "sum_n"], shards=shards, streaming=True, options=[policy])
    with tiny(*limits):
        stream = Stream(plan)
        judge = naive_updates.Stream([window], plan.keys, aggregations(plan), policy)
        for step in [Step([], SUMMER, 1, False, False), *steps, Step([], 400 * DAY, 1, False, False)]:
            rows, watermark = shifted(step.rows, judge.watermark), judge.watermark + step.advance
            found, _ = stream.run(step, rows, watermark)
            expected, late = judge.batch(rows, watermark, {})
            check([(place, quality_apart(values)) for share in found for place, values in share], expected)
            assert stream.total("late_rows") == len(late)
    assert judge.last.keys() == judge.rows.keys()


def test_each_zone_closes_at_its_own_midnight() -> None:
    """Tokyo's day ends at 15:00 UTC, that of New York (in summer) at 04:00 UTC on the day after."""
    noon = int(datetime(2024, 5, 1, 12, tzinfo=timezone.utc).timestamp() * 10**6)
    window = W.calendar("1 day", zone_column="w")
    stream = Stream(make_plan([window], ("w",), ["count"], streaming=True))
    cities = {"Asia/Tokyo": 3, "Europe/Berlin": 10, "UTC": 12, "America/New_York": 16}
    rows = [row(noon, w=zone) for zone in cities]
    stream.batch(rows, 0)
    closed = []
    for hour in range(1, 17):
        found, _ = stream.batch([], noon + hour * HOUR)
        for share in found:
            for (end, start, _, day, (zone,)), values in share:
                assert (end - start, values["count"], hour) == (DAY, 1, cities[zone])
                assert day == 19_844
                closed.append(zone)
    assert closed == list(cities)
    stream.batch([row(noon, w="Asia/Tokyo"), row(noon + 7 * HOUR, w="Asia/Tokyo")], noon + 17 * HOUR)
    assert stream.total("late_rows") == 1  # its day has closed; the other row is of the next one


def test_days_of_23_and_25_hours_beside_each_other() -> None:
    window = W.calendar("1 day", zone_column="w")
    plan = make_plan([window], ("w",), ["count"])
    changes = {"Europe/Berlin": (2024, 3, 31, 23), "America/New_York": (2024, 11, 3, 25), "UTC": (2024, 3, 31, 24)}
    rows = []
    for zone, (year, month, day, _) in changes.items():
        begin = naive.midnight(zone, datetime(year, month, day).date())
        rows += [row(begin + hour * HOUR, w=zone) for hour in range(-1, 26)]
    for share in answer(plan, [rows]):
        found = {(zone, day): values["count"] for (_, _, _, day, (zone,)), values in share}
        for zone, (year, month, day, hours) in changes.items():
            number = (datetime(year, month, day) - datetime(1970, 1, 1)) // timedelta(days=1)
            assert found[zone, number] == hours


def test_windows_over_rows_beside_them() -> None:
    """Sessions and count windows of the same query: their rows wait up to the latest time of all zones."""
    windows = [W.calendar("1 day", zone_column="w"), W.count(2), W.session("2 hours")]
    plan = make_plan(windows, ("w",), ["count", "sum_n"], streaming=True, delay=0)
    stream = Stream(plan)
    times = [(0, "UTC"), (1, "Asia/Tokyo"), (2, "UTC"), (30, "Asia/Tokyo"), (31, "UTC"), (60, "Mars")]
    rows = [row(SUMMER + hour * HOUR, w=zone, n=hour) for hour, zone in times]
    found, _ = stream.batch(rows, SUMMER)
    counts = [(place[2], place[4], values["sum_n"]) for share in found for place, values in share]
    # Tokyo's second row is before the latest one, which is in UTC: its window of two rows is complete at once.
    assert sorted(counts) == [("count(2)", ("Asia/Tokyo",), 31), ("count(2)", ("UTC",), 2)]
    found, _ = stream.batch([], SUMMER + 40 * DAY)
    at = [(place[2], place[4], values["sum_n"]) for share in found for place, values in share]
    assert ("session(2 hours)", ("Asia/Tokyo",), 1) in at
    assert ("session(2 hours)", ("UTC",), 31) in at
    assert sum(name.startswith("calendar") for name, _, _ in at) == 4


@settings(max_examples=15)
@given(zoned_rows(st.integers(0, 3 * DAY), ODD[:3], 40))
def test_samples_of_windows_in_their_zones(rows: list[Row]) -> None:
    """A budget that all rows fit into gives exact answers; results say so."""
    window = W.calendar("1 day", zone_column="w")
    policy = Approximation.of(100, 0.1, 0.95, None, "l1", True, 0)
    plan = make_plan([window], ("k", "w"), ["median_x"], streaming=True, approximation=policy)
    stream, judge = Stream(plan), naive.Stream([window], plan.keys, aggregations(plan))
    for begin, watermark in ((0, SUMMER), (20, SUMMER + DAY), (40, SUMMER + 30 * DAY)):
        part = shifted(rows[begin : begin + 20], SUMMER)
        found, _ = stream.batch(part, watermark)
        check(
            [(place, quality_apart(values)) for share in found for place, values in share],
            judge.batch(part, watermark)[0],
        )


@pytest.mark.parametrize("tasks", [1, 3])
def test_many_zones_in_one_batch(tasks: int) -> None:
    window = W.calendar("1 month", zone_column="w")
    plan = make_plan([window], ("w",), ["count", "last_n"], shards=(0, 1), streaming=True)
    stream, judge = Stream(plan), naive.Stream([window], plan.keys, aggregations(plan))
    rows = [row(SUMMER + index * HOUR, w=zone, n=index) for index, zone in enumerate(ZONES[tasks::12])]
    for part, watermark in ((rows, SUMMER), (rows[::3], SUMMER + 12 * DAY + 3 * HOUR), ([], SUMMER + 100 * DAY)):
        found, _ = stream.batch(part, watermark, tasks)
        check([result for share in found for result in share], judge.batch(part, watermark)[0])
