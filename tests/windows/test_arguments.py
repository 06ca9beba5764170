"""Labels, titles and what no window model takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from muntin import windows as W
from muntin.errors import MuntinError

Make = Callable[[Any], object]

DURATIONS: dict[str, tuple[str, Make]] = {
    "cumulative size": ("size", lambda value: W.cumulative(value, "1 hour")),
    "cumulative step": ("step", lambda value: W.cumulative("1 day", value)),
    "session": ("gap", W.session),
    "count": ("max_wait", lambda value: W.count(5, max_wait=value)),
    "slide_by_tuple": ("size", lambda value: W.slide_by_tuple(value, 5)),
    "slide_by_time": ("every", lambda value: W.slide_by_time(5, value)),
    "count forgets": ("forget_after", lambda value: W.count(5, forget_after=value)),
    "slide_by_tuple forgets": ("forget_after", lambda value: W.slide_by_tuple("1 hour", 5, forget_after=value)),
    "slide_by_time forgets": ("forget_after", lambda value: W.slide_by_time(5, "1 hour", forget_after=value)),
    "delta forgets": ("forget_after", lambda value: W.delta("d", 5, 1, forget_after=value)),
}
COUNTS: dict[str, tuple[str, Make]] = {
    "count size": ("size", W.count),
    "count slide": ("slide", lambda value: W.count(5, value)),
    "slide_by_tuple": ("every", lambda value: W.slide_by_tuple("1 hour", value)),
    "slide_by_time": ("last", lambda value: W.slide_by_time(value, "1 hour")),
}
AMOUNTS: dict[str, tuple[str, Make]] = {
    "size": ("size", lambda value: W.delta("d", value, 1)),
    "slide": ("slide", lambda value: W.delta("d", 1, value)),
}
NAMED: dict[str, Make] = {
    "cumulative": lambda name: W.cumulative("1 day", "1 hour", name=name),
    "session": lambda name: W.session("1 hour", name=name),
    "count": lambda name: W.count(5, name=name),
    "slide_by_tuple": lambda name: W.slide_by_tuple("1 hour", 5, name=name),
    "slide_by_time": lambda name: W.slide_by_time(5, "1 hour", name=name),
    "delta": lambda name: W.delta("d", 5, 1, name=name),
}


@pytest.mark.parametrize("where", DURATIONS)
@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("0 seconds", "must be longer than zero"),
        ("-5 minutes", "must be longer than zero"),
        (timedelta(0), "must be longer than zero"),
        ("1 month", "a month has no fixed length"),
        ("soon", "is not a duration"),
        (5, "must be a duration"),
        (True, "must be a duration"),
    ],
)
def test_lengths_are_positive_durations(where: str, value: Any, complaint: str) -> None:
    argument, make = DURATIONS[where]
    with pytest.raises(MuntinError, match=f"^{argument} .*{complaint}"):
        make(value)


@pytest.mark.parametrize("where", COUNTS)
@pytest.mark.parametrize("value", [0, -1, 2.0, 2.5, True, "3", math.nan])
def test_counts_are_whole_and_positive(where: str, value: Any) -> None:
    argument, make = COUNTS[where]
    with pytest.raises(MuntinError, match=f"^{argument} must be a whole number of tuples, at least 1 and below"):
        make(value)


@pytest.mark.parametrize("make", [W.count, lambda size: W.slide_by_time(size, "1 hour")])
def test_a_size_is_needed(make: Make) -> None:
    with pytest.raises(MuntinError, match="must be a whole number of tuples"):
        make(None)


@pytest.mark.parametrize("where", AMOUNTS)
@pytest.mark.parametrize("value", [0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf, 2**63, 10**400, True, "3", None])
def test_amounts_are_finite_and_positive(where: str, value: Any) -> None:
    argument, make = AMOUNTS[where]
    with pytest.raises(
        MuntinError, match=f"^{argument} must be a positive number below 2\\*\\*63, an amount of 'd', got"
    ):
        make(value)


@pytest.mark.parametrize("column", ["", None, 5])
def test_a_delta_has_a_column(column: Any) -> None:
    with pytest.raises(MuntinError, match=r"^column must be the name of a column, a SQL expression or a Spark column"):
        W.delta(column, 5, 1)


@pytest.mark.parametrize("model", NAMED)
@pytest.mark.parametrize("name", ["", 5, False])
def test_names_are_non_empty_strings(model: str, name: Any) -> None:
    with pytest.raises(MuntinError, match=r"^name must be a non-empty string"):
        NAMED[model](name)


@pytest.mark.parametrize(("size", "step"), [("1 day", "7 hours"), ("1 hour", "2 hours"), ("10 us", "3 us")])
def test_a_cumulative_window_is_a_whole_number_of_steps(size: str, step: str) -> None:
    with pytest.raises(
        MuntinError, match=f"^size must be a whole number of steps, got size='{size}' and step='{step}'"
    ):
        W.cumulative(size, step)


@pytest.mark.parametrize(
    ("window", "label"),
    [
        (W.cumulative("1 day", "1 hour"), "cumulative(1 day, 1 hour)"),
        (W.cumulative("1 day", "1 hour", offset="6 hours"), "cumulative(1 day, 1 hour, offset=6 hours)"),
        (W.session("90 minutes"), "session(1 hour 30 minutes)"),
        (W.count(1000), "count(1,000)"),
        (W.count(1000, 10), "count(1,000, 10)"),
        (W.count(5, 5, "1 minute"), "count(5, max_wait=1 minute)"),
        (W.slide_by_tuple("1 hour", 1500), "slide_by_tuple(1 hour, 1,500)"),
        (W.slide_by_time(1500, "1 hour"), "slide_by_time(1,500, 1 hour)"),
        (W.delta("km", 1000, 2.5), "delta('km', 1,000, 2.5)"),
        (W.delta("km", 10.0, 1), "delta('km', 10, 1)"),
    ],
)
def test_labels(window: W.Window, label: str) -> None:
    assert window.label == label
    assert window.title == label


@pytest.mark.parametrize("model", NAMED)
def test_a_name_is_the_title(model: str) -> None:
    window = NAMED[model]("mine")
    assert isinstance(window, W.Window)
    assert window.title == "mine"
    assert window.label.startswith(model)


@pytest.mark.parametrize("model", NAMED)
def test_the_taxonomy_of_the_paper(model: str) -> None:
    window = NAMED[model](None)
    assert isinstance(window, W.Window)
    aware = model in ("slide_by_tuple", "slide_by_time", "delta")
    assert window.forward_context == ("aware" if aware else "free")
    assert window.extent_formula.startswith("E(w) = ")


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("max_wait", lambda length: W.count(5, max_wait="1 hour", forget_after=length)),
        ("size", lambda length: W.slide_by_tuple("1 hour", 5, forget_after=length)),
        ("every", lambda length: W.slide_by_time(5, "1 hour", forget_after=length)),
    ],
)
def test_no_key_is_forgotten_before_its_windows_are_complete(argument: str, make: Make) -> None:
    with pytest.raises(MuntinError, match=f"^forget_after is '59 minutes', shorter than {argument}.* 1 hour"):
        make("59 minutes")
    make("1 hour")
