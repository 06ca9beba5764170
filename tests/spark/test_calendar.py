"""Calendar windows on Spark: its own date_trunc in the zone is the judge."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, results, run

ZONES = ["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"]
UNITS = ["day", "week", "month", "quarter", "year"]
NOW = 1_300_000_000


@pytest.mark.parametrize("zone", ZONES)
def test_tumbling_windows_are_those_of_date_trunc(spark: SparkSession, zone: str) -> None:
    chance = random.Random(zone)
    seconds = [chance.randrange(0, 4_102_444_800) for _ in range(3000)]
    seconds += [NOW + chance.randrange(0, 40_000_000) for _ in range(3000)]  # several in a day
    rows = spark.createDataFrame([(second,) for second in seconds], "second long").select(
        F.timestamp_seconds("second").alias("t")
    )
    windows = [W.calendar(f"1 {unit}", zone=zone, name=unit) for unit in UNITS]
    found = muntin.over(rows, *windows, W.tumbling("5 hours", name="clock"), time="t").agg(n=A.count()).to_df()
    ours = {
        (row.window_name, row.start, row.n)
        for row in found.where("window_name <> 'clock'")
        .select("window_name", F.unix_seconds("window.start").alias("start"), "n")
        .collect()
    }
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        theirs = set()
        for unit in UNITS:
            start = F.unix_seconds(F.date_trunc(unit, "t")).alias("start")
            theirs |= {(unit, row.start, row["count"]) for row in rows.groupBy(start).count().collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    assert ours == theirs
    assert len(ours) > 5000


def test_a_stream_goes_on_after_a_restart(spark: SparkSession, here: Path) -> None:
    def days(*at: float) -> pa.Table:
        micros = pa.array([round((NOW + 86_400 * day) * 1e6) for day in at], pa.int64())
        return pa.table({"ts": micros.cast(pa.timestamp("us", tz="UTC"))})

    feed = Feed(spark, here / "in", "ts timestamp")
    feed.add(days(0.1, 0.9, 3.5), days(0.2, 40.0))
    windows = W.calendar("1 month", zone="Europe/Berlin"), W.calendar("3 days", "1 day", "Europe/Berlin")

    def query(frame: object) -> object:
        over = muntin.over(frame, *windows, time="ts", watermark="1 day" if frame.isStreaming else None)  # type: ignore
        return over.agg(n=A.count()).to_df()

    run(query(feed.stream()), here)  # type: ignore[arg-type]
    feed.add(days(70.0, 71.0), days(200.0))
    frame = query(feed.stream())
    run(frame, here)  # type: ignore[arg-type]
    feed.add(days(250.0))
    found, expected = (
        {(row.window_name, row.window.start, row.window.end, row.n) for row in rows}
        for rows in (results(spark, frame, here), query(feed.table()).collect())  # type: ignore
    )
    assert len(found) > 10
    assert found == {each for each in expected if each[2].timestamp() <= NOW + 86_400 * 199}
