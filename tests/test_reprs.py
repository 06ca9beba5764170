"""What `repr` shows: short, and as the user wrote it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from muntin import aggregates as A
from muntin import windows as W
from muntin.features.workers.dealing import Deal, DealtWindow
from muntin.written import written


def one(*columns: Any) -> Any:
    return columns[0]


SHOWN = [
    'W.tumbling("15 minutes")',
    'W.tumbling("1 hour", offset="15 minutes", name="hourly")',
    'W.sliding("15 minutes", "5 minutes")',
    'W.sliding("1 hour 7 minutes 3 microseconds", "1 minute 30 seconds", offset="1 millisecond")',
    'W.calendar("1 month", zone="Europe/Berlin")',
    'W.calendar("7 days", "1 day", zone_column="tz")',
    'W.calendar("2 weeks", "1 week", zone="UTC", week_start="sunday", name="weeks")',
    'W.cumulative("1 day", "1 hour")',
    'W.cumulative("1 day", "1 hour", offset="6 hours", name="today")',
    'W.session("30 minutes")',
    "W.count(100)",
    'W.count(100, 20, max_wait="1 minute")',
    'W.count(100, max_wait="1 minute", forget_after="30 days")',
    'W.slide_by_tuple("1 hour", 10)',
    'W.slide_by_time(50, "1 minute", forget_after="1 hour", name="recent")',
    'W.slide_by_time(50, "1 minute")',
    'W.delta("odometer", 100, 2.5, name="way")',
    "A.count()",
    'A.count("fare", where="fare > 10")',
    'A.sum("fare")',
    'A.mean("fare")',
    'A.var_pop("fare")',
    'A.var_samp("fare")',
    'A.stddev_pop("fare")',
    'A.stddev_samp("fare")',
    'A.min("fare")',
    'A.max("fare")',
    'A.first("fare")',
    'A.last("fare")',
    'A.argmin("fare")',
    'A.argmax("route", "fare")',
    'A.min_count("fare")',
    'A.max_count("fare")',
    'A.median("fare")',
    'A.quantile("fare", 0.95)',
    'A.quantile("fare", [0.5, 0.9])',
    'A.mode("fare")',
    'A.count_distinct("fare")',
    'A.collect("fare")',
    'A.top_k("fare", 3, where="fare is not null")',
    'A.custom(one, one, one, columns=["fare"], returns="double")',
]


@pytest.mark.parametrize("shown", SHOWN)
def test_a_value_is_shown_as_it_is_written(shown: str) -> None:
    assert repr(eval(shown, {"W": W, "A": A, "one": one})) == shown


def test_every_window_and_every_aggregate_is_shown_so() -> None:
    told = {each.split("(")[0].split(".")[1] for each in SHOWN}
    functions = {name for module in (W, A) for name in module.__all__ if name.islower()}
    assert told == functions


def test_the_windows_of_a_worker_are_shown_as_all_of_them() -> None:
    assert repr(DealtWindow.of(W.tumbling("1 hour"), Deal(1, 3, 1))) == 'W.tumbling("1 hour")'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ('say "x"', '"say \\"x\\""'),
        ("größer", '"größer"'),
        ("\ud800", '"\\ud800"'),
        ("a" * 100, f'"{"a" * 59}…"'),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, …]"),
        (partial(one, 1), "partial"),
        (None, "None"),
    ],
)
def test_any_argument_is_short_and_can_be_printed(value: object, shown: str) -> None:
    assert written(value) == shown
    written(value).encode()
