"""Updates of calendar windows, sessions, count windows and sliding ones in one query, with late rows and restarts.

The judge is the same query without updates, over all rows received so far.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.testing import Stream

SCHEMA = "ts timestamp, k string, v long"
BEGIN = datetime(2024, 3, 28, tzinfo=timezone.utc)  # Berlin's clocks go forward on the 31st
LAST = datetime(2030, 1, 1, tzinfo=timezone.utc)
HOURS = st.integers(0, 150)
BATCHES = st.lists(st.lists(st.tuples(HOURS, st.sampled_from(["a", "b"]), st.integers(0, 3)), max_size=4), max_size=6)
Answers = dict[tuple[Any, ...], tuple[Any, ...]]


def query(data: Any) -> muntin.Query:
    windows = (
        W.calendar("1 day", zone="Europe/Berlin", name="day"),
        W.calendar("1 week", "1 day", zone="Europe/Berlin", name="week"),
        W.sliding("6 hours", "2 hours", name="sliding"),
        W.session("5 hours", name="session"),
        W.count(4, 2, name="count"),
    )
    return muntin.over(data, *windows, time="ts", watermark="3 hours", by="k").agg(most=A.max("v"), mid=A.median("v"))


def updating(data: Any) -> muntin.Query:
    return query(data).emit("on_change").late("update", within="365 days")


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["window_name"], row["window_id"], row["k"]


def answer(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["window"]["start"], row["window"]["end"], row["most"], row["mid"]


def in_table(rows: list[Any]) -> Answers:
    """The answers where all rows are there before any window closes."""
    stream = Stream(query, SCHEMA, shards=1)
    stream.batch(rows)
    stream.watermark(LAST)
    return {identity(row): answer(row) for row in stream.results}


@settings(max_examples=20)
@given(BATCHES, st.lists(st.booleans(), min_size=6, max_size=6))
def test_every_revision_is_the_answer_of_the_rows_so_far(batches: list[Any], restarts: list[bool]) -> None:
    stream = Stream(updating, SCHEMA)
    rows, last = list[Any](), Answers()
    revisions = dict[tuple[Any, ...], int]()
    timings = dict[tuple[Any, ...], str]()
    for batch, restart in zip(batches, restarts, strict=False):
        if restart:
            stream.restart()
        sent = [(BEGIN + timedelta(hours=hours), key, value) for hours, key, value in batch]
        rows += sent
        step = stream.batch(sent)
        expected = in_table(rows)
        assert step.late_rows == 0
        for row in step.results:
            place = identity(row)
            assert row["revision"] == revisions.get(place, -1) + 1
            revisions[place] = row["revision"]
            if row["retracted"]:
                del last[place]
                continue
            assert last.get(place) != answer(row), "nothing is emitted that has not changed"
            last[place] = answer(row)
            assert timings.get(place) in (None, "early") or row["timing"] == "late"
            timings[place] = row["timing"]
        assert last == expected
    stream.watermark(LAST)
    assert {row["timing"] for row in stream.steps[-1].results} <= {"on_time"}
    final = {identity(row): answer(row) for row in stream.steps[-1].results if not row["retracted"]}
    assert last | final == last == in_table(rows)
