"""Calendar windows on Spark: its own date_trunc in the zone is the judge."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
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


def test_the_zone_of_each_key(spark: SparkSession) -> None:
    chance = random.Random(9)
    values = []
    for zone in [*ZONES, "America/New_York", "Asia/Tokyo", "UTC", None, "Nowhere"]:
        seconds = [chance.randrange(0, 4_102_444_800) for _ in range(200)]
        values += [(second, zone) for second in seconds + [NOW + chance.randrange(0, 10_000_000) for _ in range(200)]]
    rows = spark.createDataFrame(values, "second long, tz string").select(
        F.timestamp_seconds("second").alias("t"), "tz"
    )
    windows = [W.calendar(f"1 {unit}", zone_column="tz", name=unit) for unit in ("day", "week", "month")]
    query = muntin.over(rows, *windows, W.tumbling("5 hours", name="clock"), time="t", by="tz").agg(n=A.count())
    found = query.to_df()
    ours = {
        (row.window_name, row.tz, row.start, row.n)
        for row in found.where("window_name <> 'clock'")
        .select("window_name", "tz", F.unix_seconds("window.start").alias("start"), "n")
        .collect()
    }
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        theirs = set()
        for unit in ("day", "week", "month"):
            local = F.date_trunc(unit, F.from_utc_timestamp("t", F.col("tz")))
            start = F.unix_seconds(F.to_utc_timestamp(local, F.col("tz"))).alias("start")
            counts = rows.where("tz <> 'Nowhere'").groupBy("tz", start).count().collect()
            theirs |= {(unit, row.tz, row.start, row["count"]) for row in counts}
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    assert ours == theirs
    assert len(ours) > 3000
    assert found.where("window_name = 'clock'").agg(F.sum("n")).collect() == [(400 * 8,)]
    with pytest.raises(muntin.MuntinError, match="the windows of a join are the same for all keys"):
        muntin.join(rows, rows, windows[0], on="tz", time="t")


def test_a_stream_of_several_zones_goes_on_after_a_restart(spark: SparkSession, here: Path) -> None:
    def rows(*hours: float) -> pa.Table:
        zones = ["Asia/Tokyo", "Europe/Berlin", "America/New_York", "Nowhere"]
        micros = [round((NOW + 3600 * hour) * 1e6) for hour in hours for _ in zones]
        times = pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        return pa.table({"ts": times, "tz": zones * len(hours)})

    feed = Feed(spark, here / "in", "ts timestamp, tz string")
    feed.add(rows(1, 2, 3, 9, 12, 17, 22, 30))
    windows = W.calendar("1 day", zone_column="tz"), W.calendar("2 days", "1 day", zone_column="tz")

    def query(frame: DataFrame) -> muntin.Query:
        watermark = "2 hours" if frame.isStreaming else None
        return muntin.over(frame, *windows, time="ts", watermark=watermark, by="tz").agg(n=A.count(), last=A.last("ts"))

    run(query(feed.stream()).to_df(), here)
    panes = muntin.state(here / "checkpoint", query(feed.stream()))
    assert {row.tz for row in panes.select("tz").collect()} == {"Asia/Tokyo", "Europe/Berlin", "America/New_York"}
    parts = muntin.state(here / "checkpoint").where("part = 'panes'").select("name").collect()
    assert {row.name.rpartition("/")[0] for row in parts} == {row.tz for row in panes.select("tz").collect()}
    feed.add(rows(31, 60), rows(61), rows(2, 100))
    frame = query(feed.stream()).to_df()
    stream = run(frame, here)
    assert muntin.progress(stream).invalid_rows == 8 + 2 + 1 + 2
    assert muntin.progress(stream).late_rows == 3
    late = F.col("ts") == F.timestamp_seconds(F.lit(NOW + 7200))
    in_time = feed.table().where(~late).unionAll(feed.table().where(late).dropDuplicates())
    found, expected = (
        {(row.window_name, row.window.end, row.tz, row.n, row["last"]) for row in found}
        for found in (results(spark, frame, here), query(in_time).to_df().collect())
    )
    assert len(found) > 12
    assert found == {each for each in expected if each[1].timestamp() <= NOW + 3600 * 98}


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
