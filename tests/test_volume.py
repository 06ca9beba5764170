"""What `explain()` says of how much comes out and is kept, and what it warns of."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from muntin import aggregates as A
from muntin import windows as W
from muntin.query import Query
from muntin.query.explain import explanation
from tests.builders import TIME, TYPES

SOURCE: Any = SimpleNamespace(types=TYPES, unreadable={}, streaming=True, beside=(), watermarks={}, scan=None)
"""All that a query needs of its input before it runs."""
MINUTE = 60_000_000


def explained(
    *windows: W.Window, by: tuple[str, ...] = ("k",), watermark: int = MINUTE, **named: A.Aggregate
) -> list[str]:
    bound = {name: each.bind(TYPES, None, TIME) for name, each in (named or {"n": A.count()}).items()}
    query = replace(Query(SOURCE, windows, "t", watermark, by), aggregates=bound)
    return explanation(query).splitlines()


def results(*windows: W.Window) -> str:
    (line,) = [line for line in explained(*windows) if line.startswith("Results: ")]
    return line


def warnings(*windows: W.Window, **others: Any) -> list[str]:
    lines = explained(*windows, **others)
    found = [line for line in lines if line.startswith("Warning: ")]
    assert lines[len(lines) - len(found) :] == found  # they come last
    return found


def test_results_are_counted() -> None:
    alone = "Results: a row that is alone in its key leads to"
    all_the_time = "a key with rows all the time gives"
    assert results(W.tumbling("1 hour")) == f"{alone} 1 result; {all_the_time} 24 per day of event time."
    assert (
        results(W.sliding("1 hour", "1 minute")) == f"{alone} 60 results; {all_the_time} 1,440 per day of event time."
    )
    two = W.sliding("1 hour", "500 ms"), W.cumulative("1 day", "1 hour")
    assert results(*two) == f"{alone} 7,224 results; {all_the_time} 2 per second of event time."
    assert results(W.tumbling("30 days")).endswith("gives fewer than one per day of event time.")
    assert results(W.slide_by_time(5, "1 second")).endswith("gives 1 per second of event time.")
    assert not [line for line in explained(W.count(10)) if line.startswith("Results")]


@pytest.mark.parametrize(
    "windows",
    [
        [W.sliding("15 minutes", "5 minutes")],
        [W.sliding("1 hour", "1 minute"), W.tumbling("1 day")],
        [W.sliding("1 day", "1 second")],
        [W.sliding("30 days", "1 minute")],
        [W.sliding("1 second", "10 milliseconds")],
        [W.cumulative("1 day", "1 minute")],
        [W.session("30 minutes"), W.count(100, 1), W.slide_by_tuple("1 hour", 1), W.slide_by_time(10, "1 second")],
        [W.delta("x", 100, 1)],
    ],
    ids=str,
)
def test_no_false_alarm(windows: list[W.Window]) -> None:
    some = {
        "trips": A.count(),
        "mean": A.mean("x"),
        "spread": A.stddev_pop("x"),
        "most": A.max("n"),
        "p": A.median("x"),
    }
    assert warnings(*windows, **some) == []
    assert warnings(*windows, by=(), **some) == []


def test_very_many_results_get_a_warning() -> None:
    (warning,) = warnings(W.sliding("1 hour", "3600 microseconds"))
    for fact in (
        "sliding(1 hour, 3 milliseconds 600 microseconds) emits very many results",
        "up to 1,000,000 results for a single row",
        "278 per second of event time for every key",
        "Choose a coarser slide, such as '5 seconds'",
    ):
        assert fact in warning
    assert "200,000 results" in warnings(W.sliding("200 days", "86 seconds 400 ms"))[0]
    assert "1,000 per second" in warnings(W.slide_by_time(3, "1 ms"))[0]


def test_very_much_state_gets_a_warning() -> None:
    (results, state, panes) = warnings(W.sliding("100 days", "1 microsecond"))
    assert "8,640,000,000,000 results" in results
    assert "keeps about 207.4 TB of state (8,640,060,000,001 panes), and a thousand such keys 207.4 PB" in state
    assert "Choose a coarser slide, shorter windows or a shorter watermark" in state
    assert ".compress()" not in state
    assert "panes of 1 microsecond are very short" in panes
    assert ".compress() makes them smaller" in warnings(W.sliding("100 days", "1 microsecond"), p=A.median("x"))[1]
    late = warnings(W.tumbling("1 second"), watermark=365 * 86_400 * 1_000_000)
    assert "a shorter watermark" in late[0]


def test_one_group_may_keep_more_than_one_of_many() -> None:
    window = W.sliding("60 days", "1 second")
    assert "a thousand such keys" in warnings(window)[-1]
    assert not [each for each in warnings(window, by=()) if "of state" in each]


def test_panes_that_are_shorter_than_they_need_be_are_named() -> None:
    *_, panes = warnings(W.sliding("20 days 3 milliseconds", "1 hour"))
    assert "panes are 3 milliseconds long, shorter than any slide" in panes
