"""Calendar windows: midnights of all zones, and whole streams, against plain loops over the clocks of a zone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import available_timezones

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.errors import MuntinError
from muntin.panes.grid import PaneGrid
from muntin.windows.zones import midnights
from tests import naive
from tests.builders import Stream, aggregations, check, make_plan, row

ZONES = sorted(available_timezones())
ODD = [
    "America/Sao_Paulo",  # clocks changed at midnight
    "Africa/Cairo",
    "Asia/Beirut",
    "Pacific/Apia",  # skipped a day
    "Australia/Lord_Howe",  # half an hour
    "Asia/Kathmandu",
    "America/St_Johns",  # a minute past midnight
    "Africa/Monrovia",  # an offset of seconds until 1972
    "Europe/Berlin",
    "UTC",
]
BEGIN, END = 0, 4_102_444_800 * 10**6
"""1970 and 2100."""
EPOCH = date(1970, 1, 1)
DAY = 86_400 * 10**6

ANY_ZONE = st.sampled_from(ODD) | st.sampled_from(ZONES)
WINDOWS: st.SearchStrategy[W.Window] = st.one_of(
    st.builds(
        lambda size, slide, zone: W.calendar(f"{size} days", f"{slide} days", zone),
        st.integers(1, 9),
        st.integers(1, 9),
        ANY_ZONE,
    ),
    st.builds(
        lambda size, slide, zone, start: W.calendar(f"{size} weeks", f"{slide} weeks", zone, start),
        st.integers(1, 3),
        st.integers(1, 2),
        ANY_ZONE,
        st.sampled_from(["monday", "sunday", "Thursday"]),
    ),
    st.builds(
        lambda size, slide, zone: W.calendar(f"{size} months", f"{slide} months", zone),
        st.integers(1, 5),
        st.integers(1, 4),
        ANY_ZONE,
    ),
)


@settings(max_examples=150)
@given(st.sampled_from(ZONES), st.integers(-5_000, 47_000))
def test_the_first_instant_of_a_day_in_any_zone(zone: str, day: int) -> None:
    (found,) = midnights(zone, np.array([day])).tolist()
    assert found == naive.midnight(zone, EPOCH + timedelta(days=day))


@pytest.mark.parametrize("zone", ODD)
def test_days_around_every_change_of_clocks(zone: str) -> None:
    days = np.arange(0, 47_000)
    found = midnights(zone, days)
    lengths = np.diff(found)
    assert (lengths >= 0).all()
    for day in days[:-1][lengths != DAY][::7]:
        assert found[day] == naive.midnight(zone, EPOCH + timedelta(days=int(day)))
        assert found[day + 1] == naive.midnight(zone, EPOCH + timedelta(days=int(day) + 1))
    assert len(np.unique(lengths)) == (1 if zone == "UTC" else len(np.unique(lengths)))


@settings(max_examples=100)
@given(WINDOWS, st.lists(st.integers(BEGIN, END), min_size=1, max_size=8))
def test_the_mapping_is_that_of_a_loop(window: W.CalendarWindow, times: list[int]) -> None:
    at = np.array(times)
    first, last = window.first_containing(at), window.last_containing(at)
    for time, low, high in zip(times, first.tolist(), last.tolist(), strict=True):
        assert [i for i in range(low, high + 1) if window.start(i) < window.end(i)] == naive.windows_holding(
            window, time
        )
        ended = window.last_ended(time)
        assert naive.end_of(window, ended) <= time < naive.end_of(window, ended + 1)
    assert window.longest >= max(window.end(i) - window.start(i) for i in range(int(first[0]), int(last[0]) + 2))
    assert window.has_gaps or (first <= last).all()


@settings(max_examples=60)
@given(
    st.lists(WINDOWS | st.builds(lambda n: W.tumbling(f"{n} hours"), st.integers(1, 30)), min_size=1, max_size=3),
    st.lists(st.integers(BEGIN, BEGIN + 60_000 * 3600 * 10**6), min_size=1, max_size=20),
)
def test_no_window_begins_or_ends_inside_a_pane(windows: list[Any], times: list[int]) -> None:
    grid, at = PaneGrid.of(windows), np.array(times)
    starts, listed = grid.starts(at), grid.starts_of(at)
    assert (starts <= at).all()
    assert np.isin(starts, listed).all()
    assert (listed[np.searchsorted(listed, at, side="right") - 1] == starts).all()
    for window in windows:
        for edge in (window.first_containing, window.last_containing):
            assert (edge(starts) == edge(at)).all()
        assert grid.most_in(window.longest) >= 1


@pytest.mark.parametrize(
    ("windows", "finest"),
    [
        ([W.calendar("1 month", zone="Europe/Berlin")], W.calendar("1 day", zone="Europe/Berlin")),
        ([W.calendar("1 week", zone="Asia/Tokyo")], W.calendar("3 days", "1 day", "Asia/Tokyo")),
        ([W.calendar("1 year", "1 quarter"), W.tumbling("1 day")], W.tumbling("6 hours")),
    ],
)
def test_windows_share_panes_where_their_edges_agree(windows: list[Any], finest: Any) -> None:
    """Coarser windows beside finer ones add no pane."""
    days = np.arange(20_000 * DAY, 21_000 * DAY, DAY // 7)
    alone, together = PaneGrid.of([finest]), PaneGrid.of([*windows, finest])
    assert (together.starts(days) == alone.starts(days)).all()
    assert (np.isin(together.starts_of(days), alone.starts(days))).all()


def test_a_machine_without_a_database_of_zones() -> None:
    script = """
import sys
sys.modules["tzdata"] = None
from muntin import MuntinError, windows as W
for make in (
    lambda: W.calendar("1 day"), lambda: W.calendar("1 day", zone_column="tz"), lambda: W.tumbling("1 day", zone="UTC")
):
    try:
        make()
    except MuntinError as error:
        print(error)
"""
    environment = {**os.environ, "PYTHONTZPATH": ""}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.count("no database of time zones on this machine; install one with pip install tzdata") == 3


NEAR = st.builds(
    lambda year, change, seconds: int(
        (datetime(year, change, 15, tzinfo=timezone.utc) + timedelta(seconds=seconds)).timestamp() * 10**6
    ),
    st.just(2011),
    st.sampled_from([3, 10, 12]),
    st.integers(-20 * 86_400, 20 * 86_400),
)
TIMES = NEAR | st.integers(BEGIN, END)


@settings(max_examples=60)
@given(
    st.lists(WINDOWS, min_size=1, max_size=2),
    st.booleans(),
    st.sampled_from([(), ("k",)]),
    st.lists(st.lists(st.builds(lambda t, k: row(t, k), TIMES, st.sampled_from("ab")), max_size=8), max_size=4),
    st.lists(TIMES, min_size=4, max_size=4),
)
def test_streams_and_tables_are_naive(
    windows: list[W.Window], clock: bool, keys: tuple[str, ...], batches: list[list[Any]], marks: list[int]
) -> None:
    named = [replace(window, name=f"w{i}") for i, window in enumerate(windows)]
    every = [*named, *([W.tumbling("5 hours", name="clock")] if clock else [])]
    plan = make_plan(every, keys, ["count", "sum_n"], streaming=True)
    stream, judge = Stream(plan), naive.Stream(every, keys, aggregations(plan))
    watermark = 0
    for rows, mark in zip(batches, sorted(marks), strict=False):
        watermark = max(watermark, mark)
        found, _ = stream.batch(rows, watermark)
        check([result for share in found for result in share], judge.batch(rows, watermark)[0])


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: W.calendar("1 hour"), r"size must be a number of days, weeks.*use W.tumbling or W.sliding"),
        (lambda: W.calendar("1 month 2 days"), "mixes months and days"),
        (lambda: W.calendar("1 month", "1 day"), "windows of months slide by months"),
        (lambda: W.calendar("0 days"), "size must be from 1 to 65,536 days"),
        (lambda: W.calendar("1 day", zone="Europe/Berlinn"), r"no time zone 'Europe/Berlinn'.*Europe/Berlin"),
        (lambda: W.calendar("1 day", zone=3), "zone must be the name of a time zone"),  # type: ignore[arg-type]
        (lambda: W.calendar("1 week", week_start="mon"), "week_start must be a day of the week"),
        (lambda: W.calendar("1 day", zone_column=""), "zone_column must be the name of one of the columns of by="),
        (lambda: W.calendar("1 day", zone_column=["z"]), "zone_column must be the name"),  # type: ignore[arg-type]
        (lambda: W.calendar("1 day", zone="Asia/Tokyo", zone_column="z"), "were both given"),
        (lambda: W.calendar(5), "size must be a number of days"),  # type: ignore[arg-type]
        (lambda: W.tumbling("1 hour", zone="Europe/Berlin"), "zone= aligns windows of whole days"),
        (lambda: W.sliding("1 day", "1 day", zone="UTC", offset="1 hour"), "zone and offset were both given"),
        (lambda: W.tumbling("1 month"), r"no fixed length.*W\.calendar"),
    ],
)
def test_bad_arguments(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(MuntinError, match=complaint):
        make()


def test_how_they_are_shown() -> None:
    month = W.calendar("1 quarter", "1 month", "Europe/Berlin", name="q")
    assert repr(month) == 'W.calendar("3 months", "1 month", zone="Europe/Berlin", name="q")'
    assert repr(W.calendar("2 weeks", "1 week", week_start="sunday")) == (
        'W.calendar("2 weeks", "1 week", zone="UTC", week_start="sunday")'
    )
    assert W.calendar("1 day", zone="Asia/Tokyo").title == "calendar(1 day, Asia/Tokyo)"
    assert W.tumbling("1 day", zone="Asia/Tokyo") == W.calendar("1 day", zone="Asia/Tokyo")
    assert W.sliding("7 days", "1 day", zone="Asia/Tokyo") == W.calendar(timedelta(days=7), "1 day", "Asia/Tokyo")
