"""`zone_column=` in queries: what is refused when a query is built, and streams without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import muntin
from muntin import MuntinError, Query
from muntin import aggregates as A
from muntin import windows as W
from muntin.testing import Stream, assert_windows

SCHEMA = "at timestamp, user string, tz string, other string, n long"
DAYS = W.calendar("1 day", zone_column="tz")
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


def over(data: Any, *windows: W.Window, by: Any = ("user", "tz")) -> Query:
    return muntin.over(data, *windows, time="at", watermark="0 seconds", by=by)


def counted(data: Any, *windows: W.Window, by: Any = ("user", "tz")) -> Query:
    return over(data, *windows, by=by).agg(n=A.count())


def medians(data: Any) -> Query:
    return over(data, DAYS).agg(m=A.median("n"))


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda data: counted(data, DAYS, by=()), r"zone_column is 'tz', which is not a key.*by=\['tz'\]"),
        (
            lambda data: counted(data, DAYS, by="user"),
            r"not a key, and every key.*by=\['user', 'tz'\]",
        ),
        (lambda data: counted(data, W.calendar("1 day", zone_column="tzz")), "zone_column 'tzz'"),
        (
            lambda data: counted(data, W.calendar("1 day", zone_column="n"), by="n"),
            "zone_column 'n' is of type bigint, not a string",
        ),
        (
            lambda data: counted(data, DAYS, W.calendar("1 week", zone_column="other"), by=["tz", "other"]),
            "have different zone columns.*one query for each",
        ),
        (lambda data: counted(data, DAYS).top(2, by="n"), r"top\(\) does not go with zone_column=: it ranks"),
        (lambda data: counted(data, DAYS).shed(0.5), r"shed\(\) does not go with zone_column="),
        (lambda data: counted(data, DAYS).parallel(), r"parallel\(\) does not go with zone_column=.*model='keyed'"),
        (lambda data: medians(data).compress(memory="1 MB"), r"compress\(\) does not go.*give after="),
        (
            lambda data: counted(data, DAYS, W.calendar("1 week", zone="Asia/Tokyo")).wide(),
            "end at different times",
        ),
        (lambda data: counted(data, DAYS, W.calendar("2 days", "1 day")).wide(), "end at different times"),
    ],
)
def test_what_does_not_go_is_refused(build: Callable[[Any], Query], complaint: str) -> None:
    with pytest.raises(MuntinError, match=complaint):
        Stream(build, SCHEMA)


def test_days_of_users_with_a_restart() -> None:
    stream = Stream(lambda data: counted(data, DAYS), SCHEMA)
    cities = {"ann": "Asia/Tokyo", "bob": "Europe/Berlin", "cid": "America/New_York", "dan": None, "eve": "Nowhere"}
    step = stream.batch([(NOON, user, zone, "", 1) for user, zone in cities.items()])
    assert step.metrics["invalid_rows"] == 2
    assert not step.results
    assert [row["user"] for row in stream.watermark("2024-05-01 15:00").results] == ["ann"]
    stream.restart()
    step = stream.batch([(NOON, "ann", "Asia/Tokyo", "", 1), (NOON, "bob", "Europe/Berlin", "", 1)])
    assert step.late_rows == 1
    assert [row["user"] for row in stream.watermark("2024-05-01 22:00").results] == ["bob"]
    stream.restart()
    step = stream.watermark("2024-05-02 04:00")
    (row,) = step.results
    assert row["window_time"] == row["window"]["end"] - timedelta(microseconds=1)
    assert step.metrics["state_bytes"] == 0
    midnights = {"ann": 15, "bob": 22, "cid": 28}
    assert_windows(
        stream.results,
        [
            {
                "user": user,
                "tz": cities[user],
                "start": NOON + (end - 36) * HOUR,
                "end": NOON + (end - 12) * HOUR,
                "window_id": 19_844,
                "n": 2 if user == "bob" else 1,
            }
            for user, end in midnights.items()
        ],
    )


def test_rows_of_no_zone_do_not_move_the_watermark() -> None:
    stream = Stream(lambda data: counted(data, DAYS), SCHEMA)
    step = stream.batch([(NOON, "ann", "UTC", "", 1), (NOON + 1000 * HOUR, "bob", "Nowhere", "", 1)])
    assert step.watermark == NOON


def test_watermarks_that_rows_carry() -> None:
    def marked(data: Any) -> Query:
        return muntin.over(data, DAYS, time="at", watermark="mark", by="tz").agg(n=A.count())

    stream = Stream(marked, "at timestamp, tz string, mark timestamp")
    assert not stream.batch([(NOON, zone, None) for zone in ("Asia/Tokyo", "UTC")]).results
    step = stream.batch([(None, None, NOON + 4 * HOUR)])  # a mark alone, of no zone
    assert [row["tz"] for row in step.results] == ["Asia/Tokyo"]
    assert step.watermark == NOON + 4 * HOUR


def test_wide_rows_of_every_zone() -> None:
    def wide(data: Any) -> Query:
        return counted(data, DAYS, W.calendar("3 days", "1 day", zone_column="tz")).wide()

    stream = Stream(wide, SCHEMA)
    zones = ["Asia/Tokyo", "UTC", "America/New_York"]
    stream.batch([(NOON + 24 * day * HOUR, "ann", zone, "", 1) for zone in zones for day in range(3)])
    stream.watermark("2024-05-04 12:00")
    found = {(row["as_of"], row["tz"]): (row["n_1d"], row["n_3d"]) for row in stream.results}
    assert len(found) == len(stream.results)
    tokyo = [(1, 1), (1, 2), (1, 3)]
    assert [found[NOON + (24 * day + 3) * HOUR, "Asia/Tokyo"] for day in range(3)] == tokyo
    assert [found[NOON + (24 * day + 12) * HOUR, "UTC"] for day in range(3)] == tokyo
    assert [found[NOON + (24 * day + 16) * HOUR, "America/New_York"] for day in range(3)] == tokyo


def test_functions_get_the_window_of_their_zone() -> None:
    def described(rows: pa.Table, window: Any) -> pa.Table:
        return pa.table({"rows": [rows.num_rows], "begin": [str(window.start)], "zone": [window.key[1]]})

    def build(data: Any) -> Query:
        return over(data, DAYS).apply(described, "rows long, begin string, zone string", columns="n")

    stream = Stream(build, SCHEMA)
    stream.batch([(NOON, "ann", zone, "", 1) for zone in ("Asia/Tokyo", "UTC", "UTC")])
    stream.watermark("2024-05-03")
    found = {(row["zone"], row["begin"][:16], row["rows"]) for row in stream.results}
    assert found == {("Asia/Tokyo", "2024-04-30 15:00", 1), ("UTC", "2024-05-01 00:00", 2)}


def test_it_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    def explained(data: Any) -> Query:
        query = counted(data, DAYS)
        query.explain()
        return query

    Stream(explained, SCHEMA)
    assert "Zones: every value of 'tz' has panes and state of its own" in capsys.readouterr().out
    assert repr(DAYS) == 'W.calendar("1 day", zone_column="tz")'
