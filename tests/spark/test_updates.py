"""Updates on Spark: early, on-time and late rows of windows, with restarts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, results, run

SCHEMA = "ts timestamp, k string, v long"
BATCHES = 6


def rides(number: int) -> pa.Table:
    """A batch around minute 10 * number, with rows up to 40 minutes behind it, and some hours behind."""
    random = np.random.default_rng(number)
    minutes = 600 + 10 * number - random.choice([0, 2, 5, 15, 40], 60)
    minutes[:2] -= 300 * (number > 2)
    micros = minutes * 60_000_000 + random.integers(0, 60_000_000, 60)
    return pa.table(
        {
            "ts": pa.array(micros).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array(random.choice(np.array(["a", "b", "c", None], dtype=object), 60)),
            "v": pa.array(random.integers(0, 50, 60)),
        }
    )


def largest(data: DataFrame) -> muntin.Query:
    windows = W.sliding("30 minutes", "10 minutes"), W.tumbling("1 hour")
    return muntin.over(data, *windows, time="ts", watermark="5 minutes", by="k").agg(
        n=A.count(), most=A.max("v"), middle=A.median("v")
    )


def by_window(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each window and key, by their revision."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.revision):
        found.setdefault((row.window_name, row.window_id, row.k), []).append(row)
    return found


def test_the_last_revision_is_that_of_the_table(spark: SparkSession, here: Path) -> None:
    """The stream is started again for every batch or two, and rows hours behind are too late for all windows."""
    feed = Feed(spark, here / "in", SCHEMA)

    def query() -> DataFrame:
        return largest(feed.stream()).emit("on_change").late("update", within="1 hour").to_df()

    for number in range(BATCHES):
        feed.add(rides(number))
        if number % 2:
            handle = run(query(), here / "out")
    feed.add(pa.table({"ts": [datetime(1970, 1, 3)], "k": ["d"], "v": [1]}).cast(rides(0).schema))
    handle = run(query(), here / "out")
    rows = results(spark, query(), here / "out")
    found = by_window(rows)
    for of_window in found.values():
        assert [row.revision for row in of_window] == list(range(len(of_window)))
        timings = [row.timing for row in of_window]
        assert timings == sorted(timings, key=["early", "on_time", "late"].index)
        values = [(row.n, row.most, row.middle) for row in of_window]
        assert all(before != after for before, after in pairwise(values))
    assert {row.timing for row in rows} == {"early", "on_time", "late"}
    in_time = feed.table().where(F.col("ts") > "1970-01-01 08:00:00 UTC").where("k <> 'd' OR k IS NULL")
    table = largest(in_time).emit("on_change").to_df().collect()
    assert {(row.timing, row.revision) for row in table} == {("on_time", 0)}
    for row in table:
        last = found[row.window_name, row.window_id, row.k][-1]
        assert (last.window, last.n, last.most, last.middle) == (row.window, row.n, row.most, row.middle)
    assert {place for place in found if place[2] != "d"} == {(row.window_name, row.window_id, row.k) for row in table}
    progress = muntin.progress(handle)
    assert progress.late_rows == 2 * (BATCHES - 3)
    assert progress.results == len(rows)
    assert progress.late_results == sum(row.timing == "late" for row in rows)
    assert progress.panes > 0


def test_open_windows_are_emitted_at_most_once_in_every(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    for number in range(3):
        feed.add(rides(number))
    frame = largest(feed.stream()).emit("on_change", every="1 hour").to_df()
    run(frame, here / "out")
    found = by_window(results(spark, frame, here / "out"))
    early = [[row.timing for row in rows].count("early") for rows in found.values()]
    assert max(early) == 1
    assert any(row.timing == "on_time" and row.revision == 1 for rows in found.values() for row in rows)


def test_late_rows_say_how_late_they_were(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(rides(0), rides(1), rides(3), rides(4))
    frame = largest(feed.stream()).late("emit").to_df()
    assert frame.columns[-3:] == ["late", "lateness", "window_time"]
    run(frame, here / "out")
    rows = [row for row in results(spark, frame, here / "out") if row.late is not None]
    assert len(rows) == 4
    for row in rows:
        names = [missed.window_name for missed in row.lateness.missed]
        assert sorted(names) == ["sliding(30 minutes, 10 minutes)"] * 3 + ["tumbling(1 hour)"]
        assert all(missed.start <= row.late.ts < missed.end for missed in row.lateness.missed)
        assert row.lateness.seconds >= 0
    assert all(row.lateness is None for row in results(spark, frame, here / "out") if row.late is None)


def test_sessions_grow_and_are_retracted(spark: SparkSession, here: Path) -> None:
    """The last revisions, without retracted sessions, are the sessions of the table; so for count windows."""
    feed = Feed(spark, here / "in", SCHEMA)

    def query(data: DataFrame) -> DataFrame:
        windows = W.session("6 minutes", name="session"), W.count(20, name="count")
        query = muntin.over(data, *windows, time="ts", watermark="5 minutes", by="k")
        return query.agg(n=A.count(), most=A.max("v")).emit("on_change").late("update", within="2 hours").to_df()

    for number in range(3):
        feed.add(rides(number))
        run(query(feed.stream()), here / "out")
    rows = results(spark, query(feed.stream()), here / "out")
    found = by_window(rows)
    assert any(row.retracted and row.n is None for row in rows)
    assert all([row.revision for row in of_window] == list(range(len(of_window))) for of_window in found.values())
    last = {place: of_window[-1] for place, of_window in found.items() if not of_window[-1].retracted}
    table = {(row.window_name, row.window_id, row.k): row for row in query(feed.table()).collect()}
    assert last.keys() == table.keys()
    for place, row in table.items():
        assert (last[place].window, last[place].n, last[place].most) == (row.window, row.n, row.most)
