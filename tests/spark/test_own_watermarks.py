"""Inputs that bring a watermark of their own: Spark's windows over the same input are the judge."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, assert_same, keyed, results, run

SCHEMA = "ts timestamp, k string, v long"
SLIDING = W.sliding("10 seconds", "5 seconds", name="sliding")
Made = Callable[[Feed, Feed], DataFrame]


def batch(rows: list[tuple[float, str, int]]) -> pa.Table:
    times, keys, values = zip(*rows, strict=True)
    micros = pa.array([round(time * 1e6) for time in times], pa.int64())
    return pa.table({"ts": micros.cast(pa.timestamp("us", tz="UTC")), "k": keys, "v": pa.array(values, pa.int64())})


def rows_around(second: float, chance: random.Random) -> list[tuple[float, str, int]]:
    """In any order, within six seconds to both sides."""
    return [(second + chance.uniform(-6, 6), chance.choice("abc"), chance.randrange(30)) for _ in range(20)]


@pytest.fixture
def feeds(spark: SparkSession, here: Path) -> tuple[Feed, Feed]:
    """Two streams; the second is some fifteen seconds behind the first."""
    feeds = Feed(spark, here / "one", SCHEMA), Feed(spark, here / "two", SCHEMA)
    add_batches(feeds, range(1, 3))
    return feeds


def add_batches(feeds: tuple[Feed, Feed], tens: range, late: bool = False) -> None:
    chance = random.Random(tens.start)
    for ten in tens:
        one, two = rows_around(ten * 10 + 40, chance), rows_around(ten * 10 + 25, chance)
        if late:  # for some windows, and for all of them
            one += [(ten * 10 + 21.5, "a", 100 + ten), (ten * 10 + 14.5, "b", 100 + ten), (7, "c", 100 + ten)]
            two += [(ten * 10 + 3, "a", 200 + ten), (7, "c", 200 + ten)]
        feeds[0].add(batch(one))
        feeds[1].add(batch(two))


def run_both(ours: DataFrame, judge: DataFrame, here: Path) -> StreamingQuery:
    run(judge, here / "spark")
    return run(ours, here / "ours")


def deduplicated(one: Feed, _: Feed) -> DataFrame:
    renamed = one.stream().withWatermark("ts", "5 seconds").select(F.col("ts").alias("at"), "k", "v")
    return renamed.dropDuplicatesWithinWatermark(["k", "v"]).withColumnRenamed("at", "ts")


def united(one: Feed, two: Feed) -> DataFrame:
    return one.stream().withWatermark("ts", "5 seconds").union(two.stream().withWatermark("ts", "12 seconds"))


def joined(one: Feed, two: Feed) -> DataFrame:
    left = one.stream().withWatermark("ts", "5 seconds").alias("l")
    right = two.stream().withWatermark("ts", "12 seconds").alias("r")
    near = "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 10 SECONDS AND l.ts + INTERVAL 5 SECONDS"
    return left.join(right, F.expr(near)).select("l.ts", "l.k", "r.v")


@pytest.mark.parametrize("made", [deduplicated, united, joined])
def test_windows_are_those_of_spark_over_the_same_input(
    spark: SparkSession, here: Path, feeds: tuple[Feed, Feed], made: Made
) -> None:
    for _ in range(2):  # the second time from the checkpoint
        ours = muntin.over(made(*feeds), SLIDING, time="ts", by="k").agg(n=A.count(), s=A.sum("v")).to_df()
        cells = [F.count(F.lit(1)).alias("n"), F.sum("v").alias("s")]
        judge = made(*feeds).groupBy(F.window("ts", "10 seconds", "5 seconds"), "k").agg(*cells)
        handle = run_both(ours, judge, here)
        found = keyed(results(spark, ours, here / "ours"), "k")
        assert_same(found, keyed(results(spark, judge, here / "spark"), "k"))
        add_batches(feeds, range(3, 6), late=True)
    assert len(found) > 5
    # Before an operator of its own, Spark leaves late rows out; of a union, all come here.
    assert (muntin.progress(handle).late_rows > 0) == (made is united)


def test_tuples_are_numbered_by_the_watermark_of_the_slower_side(
    spark: SparkSession, here: Path, feeds: tuple[Feed, Feed]
) -> None:
    """The faster side is far ahead of rows that are not late at all."""

    def query(frame: DataFrame) -> DataFrame:
        windows = (
            W.count(4, name="count"),
            W.slide_by_tuple("5 seconds", 2, name="last"),
            W.session("1 second", name="session"),
        )
        return muntin.over(frame, *windows, time="ts", by="k").agg(n=A.count(), s=A.sum("v"), f=A.first("v")).to_df()

    run(query(united(*feeds)), here / "ours")
    for feed in feeds:
        feed.add(batch([(500, key, 0) for key in "abc"]))
    handle = run(query(united(*feeds)), here / "ours")
    assert muntin.progress(handle).late_rows == 0
    table = query(feeds[0].table().union(feeds[1].table()))
    found, expected = (
        {
            (row.window_name, row.k, row.window_id, row.n, row.s, row.f)
            for row in rows
            if row.window.end.timestamp() < 480
        }
        for rows in (results(spark, table, here / "ours"), table.collect())
    )
    assert {name for name, *_ in found} == {"count", "last", "session"}
    assert found == expected


def test_a_join_takes_the_watermarks_of_its_sides(spark: SparkSession, here: Path, feeds: tuple[Feed, Feed]) -> None:
    """The left side has one of its own, and the right side has not."""

    def join() -> DataFrame:
        left = feeds[0].stream().withWatermark("ts", "5 seconds")
        delays = None, "12 seconds"
        pairs = muntin.join(left, feeds[1].stream(), W.tumbling("10 seconds"), on="k", time="ts", watermark=delays)
        return pairs.agg(n=A.count(), s=A.sum("left_v")).to_df()

    sides = [
        feed.stream().withWatermark("ts", delay).withColumn("window", F.window("ts", "10 seconds")).drop("ts")
        for feed, delay in zip(feeds, ("5 seconds", "12 seconds"), strict=True)
    ]
    judge = sides[0].join(sides[1].withColumnRenamed("v", "other"), ["window", "k"])
    add_batches(feeds, range(3, 6))
    run_both(join(), judge, here)
    pairs = spark.read.schema(judge.schema).parquet(str(here / "spark" / "out"))
    found = keyed(results(spark, join(), here / "ours"), "k")
    expected = keyed(pairs.groupBy("window", "k").agg(F.count("*").alias("n"), F.sum("v").alias("s")).collect(), "k")
    # Spark's join emits pairs at once, and ours when their window has closed.
    last = max(end for _, end, _ in found)
    assert len(found) >= 6
    assert_same(found, {key: value for key, value in expected.items() if key[1] <= last})


def counted(data: DataFrame, time: str = "ts", **given: str) -> muntin.Query:
    return muntin.over(data, W.tumbling("10 seconds"), time=time, **given).agg(n=A.count())


def test_a_watermark_that_does_not_fit_is_told_before_anything_runs(feeds: tuple[Feed, Feed]) -> None:
    stream = feeds[0].stream()
    own = stream.withWatermark("ts", "5 seconds")
    counted(own, watermark="5 seconds").to_df()  # both say the same
    counted(own.withColumn("other", F.current_timestamp()), watermark="5000 milliseconds").to_df()
    with pytest.raises(MuntinError, match=r"watermark is 6 seconds, but the time column 'ts' of data has one of 5 s"):
        counted(own, watermark="6 seconds").to_df()
    with pytest.raises(
        MuntinError, match=r"data has a watermark on 'ts' already.*time is 'hour'.*withWatermark on 'ho"
    ):
        counted(own.withColumn("hour", F.date_trunc("hour", "ts")), "hour", watermark="5 seconds").to_df()
    hidden = own.select(F.date_trunc("hour", "ts").alias("hour"), "v")
    with pytest.raises(MuntinError, match=r"data has a watermark already, by withWatermark on 'ts'.*'hour' was comput"):
        counted(hidden, "hour", watermark="5 seconds").to_df()
    with pytest.raises(MuntinError, match=r"watermark is missing.*'10 minutes', or call withWatermark on 'hour'"):
        counted(hidden, "hour")
    chained = counted(stream, watermark="5 seconds").to_df().select("window.end", "n")
    with pytest.raises(MuntinError, match=r"another query over windows, give its column window_time as time"):
        counted(chained, "end", watermark="5 seconds").to_df()
    literal = stream.where("k <> '\n+- EventTimeWatermark'")
    counted(literal, watermark="5 seconds").to_df()

    def joined(left: DataFrame, right: DataFrame) -> muntin.Join:
        join = muntin.join(left, right, W.tumbling("10 seconds"), on="k", time="ts", watermark="6 seconds")
        return join.agg(n=A.count())

    joined(stream, feeds[1].stream().withWatermark("ts", "6 seconds")).to_df()
    with pytest.raises(
        MuntinError, match=r"watermark is 6 seconds, but the time column 'ts' of right has one of 5 sec"
    ):
        joined(stream, own).to_df()


def test_notes_of_a_watermark_are_none(spark: SparkSession, here: Path, feeds: tuple[Feed, Feed]) -> None:
    """A sink writes down the metadata of the schema. A stream that is read back has them, and no watermark."""
    own = feeds[0].stream().withWatermark("ts", "5 seconds")
    run(own, here / "written")
    written = spark.read.parquet(str(here / "written" / "out"))
    assert written.schema["ts"].metadata == {"spark.watermarkDelayMs": 5000}
    again = spark.readStream.schema(written.schema).parquet(str(here / "written" / "out"))
    with pytest.raises(MuntinError, match=r"watermark is missing"):
        counted(again)
    frame = counted(again, watermark="1 second").to_df()
    run(frame, here / "ours")
    latest = max(row.ts.timestamp() for row in written.collect())
    assert max(row.window.end.timestamp() for row in results(spark, frame, here / "ours")) == (latest - 1) // 10 * 10
    assert counted(written).to_df().count() > 0


def test_no_row_may_come_late(spark: SparkSession, here: Path, feeds: tuple[Feed, Feed]) -> None:
    """A delay of zero."""
    add_batches(feeds, range(3, 5))
    ours = muntin.over(feeds[0].stream(), SLIDING, time="ts", watermark="0 seconds", by="k").agg(n=A.count()).to_df()
    judge = feeds[0].stream().withWatermark("ts", "0 seconds").groupBy(F.window("ts", "10 seconds", "5 seconds"), "k")
    expected = judge.agg(F.count(F.lit(1)).alias("n"))
    run_both(ours, expected, here)
    assert_same(keyed(results(spark, ours, here / "ours"), "k"), keyed(results(spark, expected, here / "spark"), "k"))
