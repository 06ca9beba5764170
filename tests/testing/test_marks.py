"""Watermarks that rows carry, without Spark."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.testing import Stream, assert_windows

SCHEMA = "ts timestamp, k string, p timestamp, n long"
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)

Row = tuple[int | None, str | None, int | None]
"""Minute, key, and the watermark that the row carries, as a minute."""
rows = st.tuples(st.integers(-90, 90) | st.none(), st.sampled_from(["a", "b", None]), st.none() | st.integers(-90, 90))
batches = st.lists(st.lists(rows, max_size=6), max_size=5)


def at(minute: int | None) -> datetime | None:
    return None if minute is None else NOON + minute * MINUTE


def sent(stream: Stream, batch: list[Row]) -> Any:
    return stream.batch([{"ts": at(minute), "k": key, "p": at(mark)} for minute, key, mark in batch])


def sliding(data: Any, watermark: Any = "p") -> muntin.Query:
    windows = W.sliding("15 minutes", "5 minutes")
    return muntin.over(data, windows, time="ts", watermark=watermark, by="k").agg(n=A.count())


@given(batches, st.lists(st.booleans(), min_size=5, max_size=5), st.integers(1, 3))
def test_windows_close_with_the_largest_that_a_row_has_carried(
    rows: list[list[Row]], restarts: list[bool], shards: int
) -> None:
    stream = Stream(lambda data: sliding(data).late("emit"), SCHEMA, shards=shards)
    counts: Counter[tuple[datetime, str | None]] = Counter()
    watermark = datetime.min.replace(tzinfo=timezone.utc)
    for batch, restart in zip(rows, restarts, strict=False):
        if restart:
            stream.restart()
        step = sent(stream, batch)
        late = 0
        for minute, key, _ in batch:
            if minute is None:
                continue
            ends = [NOON + (minute // 5 * 5 + later) * MINUTE for later in (5, 10, 15)]
            counts.update((end, key) for end in ends if end > watermark)
            late += all(end <= watermark for end in ends)
        assert (step.late_rows, len(step.late)) == (late, late)
        assert step.invalid_rows == sum(minute is None for minute, *_ in batch)
        watermark = max([watermark, *(NOON + mark * MINUTE for _, _, mark in batch if mark is not None)])
        assert step.watermark in (watermark, None)
        assert {row["window"]["end"] <= watermark for row in step.results} <= {True}
    stream.watermark(NOON + timedelta(days=1))
    expected = [{"end": end, "k": key, "n": n, "start": end - 15 * MINUTE} for (end, key), n in counts.items()]
    assert_windows(stream.results, expected)


def of_all_kinds(data: Any, watermark: str) -> muntin.Query:
    windows = (
        W.sliding("15 minutes", "5 minutes"),
        W.session("4 minutes"),
        W.count(3, 2),
        W.slide_by_tuple("20 minutes", 2),
        W.slide_by_time(3, "10 minutes"),
        W.delta("n", 4, 2),
    )
    return muntin.over(data, *windows, time="ts", watermark=watermark, by="k").agg(n=A.count(), last=A.last("n"))


def updating(data: Any, watermark: str) -> muntin.Query:
    query = sliding(data, watermark)
    return query.emit("on_change").late("update", within="10 minutes")


@pytest.mark.parametrize("query", [of_all_kinds, updating])
@given(rows=batches)
def test_rows_that_carry_their_time_less_a_delay_are_as_that_delay(query: Any, rows: list[list[Row]]) -> None:
    """Windows of all kinds, with restarts: every step has the same rows, and the same rows are late."""
    delayed, marked = (
        Stream(lambda data: query(data, "20 minutes"), SCHEMA),
        Stream(lambda data: query(data, "p"), SCHEMA),
    )
    for batch in rows:
        dicts: list[dict[str, Any]] = [{"ts": at(minute), "k": key, "n": minute} for minute, key, _ in batch]
        steps = [
            stream.batch([{**row, "p": None if row["ts"] is None else row["ts"] - 20 * MINUTE} for row in dicts])
            for stream in (delayed, marked)
        ]
        for stream in (delayed, marked):
            stream.restart()
        assert steps[0].results == steps[1].results
        assert steps[0].late_rows == steps[1].late_rows
        assert steps[0].watermark == steps[1].watermark
    assert delayed.watermark(NOON + timedelta(days=1)).results == marked.watermark(NOON + timedelta(days=1)).results


def test_numbered_rows_are_final_once_a_watermark_has_passed_them() -> None:
    """Those of the same batch, too: whoever sends it promises that no earlier row comes."""
    stream = Stream(
        lambda data: muntin.over(data, W.count(2), time="ts", watermark="p").agg(n=A.count(), last=A.last("k")), SCHEMA
    )
    assert sent(stream, [(30, "a", None), (10, "b", None), (20, "c", None)]).results == []
    step = sent(stream, [(15, "d", 25), (40, "e", None)])
    assert [row["last"] for row in step.results] == ["d"]
    assert sent(stream, [(24, "late", None)]).late_rows == 1
    assert [row["last"] for row in sent(stream, [(None, None, 31)]).results] == ["a"]


def test_a_row_from_the_future_moves_nothing_and_is_there() -> None:
    def query(data: Any) -> muntin.Query:
        over = muntin.over(data, W.tumbling("5 minutes"), time="ts", watermark="p", max_ahead="1 hour")
        return over.agg(n=A.count())

    stream = Stream(query, SCHEMA)
    assert sent(stream, [(0, "a", 1_000_000_000), (1, "a", None)]).watermark is None
    step = stream.batch([{"ts": NOON + timedelta(days=1_000_000), "p": NOON + 3 * MINUTE}])
    assert (step.watermark, step.metrics["ahead_rows"]) == (None, 1)
    assert_windows(sent(stream, [(7, "a", 5)]), [{"start": NOON, "n": 2}])


def test_what_the_argument_says() -> None:
    def query(watermark: Any, name: str = "p", **kinds: str) -> Any:
        def build(data: Any) -> muntin.Query:
            return sliding(data, watermark)

        Stream(build, ", ".join([f"ts timestamp, k string, `{name}` timestamp", *map(" ".join, kinds.items())]))

    query("p")
    query("P")
    query("5 minutes", "5 minute")
    with pytest.raises(MuntinError, match=r"is a duration, and a column of the data, too: give a datetime.timedelta"):
        query("5 minutes", "5 minutes")
    query(timedelta(minutes=5), "5 minutes")
    with pytest.raises(MuntinError, match=r"'5 minuts', which is not a duration; .* Nor is it a column with water.*"):
        query("5 minuts")
    with pytest.raises(MuntinError, match=r"not a duration.*Nor is it.*watermark 'k' is of type string; a column with"):
        query("k")
    with pytest.raises(MuntinError, match=r"'z' is of type timestamp_ntz, and the time column 'ts' of type timestamp;"):
        query("z", z="timestamp_ntz")
    with pytest.raises(MuntinError, match=r"watermark must be a duration.*or a column.*got 5"):
        query(5)
    with pytest.raises(MuntinError, match=r"watermark must not be less than zero, got '-5 minutes'"):
        query("-5 minutes")


def test_it_is_shown_as_it_was_given() -> None:
    shown = list[str]()

    def query(data: Any) -> muntin.Query:
        query = sliding(data)
        shown.append(repr(query))
        with pytest.raises(MuntinError, match=r"drops rows before their watermarks are read"):
            query.shed(0.5, method="uniform", at="source")
        return query.shed(0.5, seed=1)

    Stream(query, SCHEMA)
    assert 'watermark="p"' in shown[0]


def test_a_checkpoint_goes_on_with_a_delay_and_back() -> None:
    stream = Stream(sliding, SCHEMA)
    sent(stream, [(0, "a", None), (1, "b", 0)])
    stream.restart(lambda data: sliding(data, "10 minutes"))
    assert sent(stream, [(2, "a", 90)]).results == []
    stream.restart(sliding)
    assert_windows(sent(stream, [(3, "a", 5)]), [{"end": at(5), "k": "a", "n": 3}, {"end": at(5), "k": "b", "n": 1}])
