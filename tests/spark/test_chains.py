"""Results that feed another operator: Spark's own chains over the same rows are the judge."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, assert_same, keyed, results, run

SCHEMA = "ts timestamp, k string, v long"
FINE, COARSE = W.sliding("10 seconds", "5 seconds"), W.tumbling("20 seconds")


def batch(rows: list[tuple[float, str, int]]) -> pa.Table:
    times, keys, values = zip(*rows, strict=True)
    micros = pa.array([round(time * 1e6) for time in times], pa.int64())
    return pa.table({"ts": micros.cast(pa.timestamp("us", tz="UTC")), "k": keys, "v": pa.array(values, pa.int64())})


def add_batches(feed: Feed, tens: range, seed: int = 0) -> None:
    """In any order, with rows that are late for some windows, and for all."""
    chance = random.Random(1000 * seed + tens.start)
    for ten in tens:
        rows = [(ten * 10 + 40 + chance.uniform(-7, 7), chance.choice("abc"), chance.randrange(30)) for _ in range(30)]
        rows += [(max(ten * 10 + 21.5, 1), "a", 100 + ten), (7, "c", 100 + ten)] if ten > 1 else []
        feed.add(batch(rows))


@pytest.fixture
def feed(spark: SparkSession, here: Path) -> Feed:
    feed = Feed(spark, here / "one", SCHEMA)
    add_batches(feed, range(1, 3))
    return feed


def fine(data: DataFrame, name: str | None = None) -> DataFrame:
    query = muntin.over(data, FINE, time="ts", watermark="5 seconds" if data.isStreaming else None, by="k", name=name)
    return query.agg(n=A.count(), s=A.sum("v")).to_df()


def fine_of(watermarked: DataFrame) -> DataFrame:
    return muntin.over(watermarked, FINE, time="ts", by="k").agg(n=A.count(), s=A.sum("v")).to_df()


def sparks_fine(data: DataFrame) -> DataFrame:
    watermarked = data.withWatermark("ts", "5 seconds") if data.isStreaming else data
    grouped = watermarked.groupBy(F.window("ts", "10 seconds", "5 seconds"), "k")
    found = grouped.agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"))
    return found.select("window", F.window_time("window").alias("window_time"), "k", "n", "s")


def sparks_coarse(data: DataFrame) -> DataFrame:
    cells = [F.count(F.lit(1)).alias("windows"), F.sum("n").alias("n"), F.max("s").alias("most")]
    return data.groupBy(F.window("window_time", "20 seconds"), "k").agg(*cells)


def coarse(data: DataFrame) -> DataFrame:
    query = muntin.over(data, COARSE, time="window_time", by="k")
    return query.agg(windows=A.count(), n=A.sum("n"), most=A.max("s")).to_df()


def test_windows_over_windows_are_those_of_spark(spark: SparkSession, here: Path, feed: Feed) -> None:
    ours, sparks = coarse(fine(feed.stream())), sparks_coarse(fine(feed.stream()))
    run(ours, here / "ours")
    add_batches(feed, range(4, 6))
    handle = run(coarse(fine(feed.stream())), here / "ours")  # goes on from the checkpoint
    judge = sparks_coarse(sparks_fine(feed.stream()))
    for frame, place in ((judge, "spark"), (sparks, "spark after ours")):
        run(frame, here / place)
    expected = keyed(results(spark, judge, here / "spark"), "k")
    assert len(expected) > 3
    assert_same(keyed(results(spark, ours, here / "ours"), "k"), expected)
    assert_same(keyed(results(spark, sparks, here / "spark after ours"), "k"), expected)
    assert muntin.progress(handle).late_rows == 0


def test_a_table_has_the_same_event_time_as_a_stream(spark: SparkSession, here: Path, feed: Feed) -> None:
    table, judge = fine(feed.table()), sparks_fine(feed.table())
    assert table.columns == ["window", "window_id", "k", "n", "s", "window_time"]
    assert_same(keyed(table.collect(), "k"), keyed(judge.collect(), "k"))
    stream = fine(feed.stream())
    assert stream.schema["window_time"].dataType == table.schema["window_time"].dataType
    run(stream, here / "ours")
    of_stream = keyed(results(spark, stream, here / "ours"), "k")
    assert of_stream
    assert {row["window_time"] for row in of_stream.values()} <= {row.window_time for row in judge.collect()}
    assert_same(keyed(coarse(table).collect(), "k"), keyed(sparks_coarse(judge).collect(), "k"))


def test_sessions_and_counts_over_windows(spark: SparkSession, here: Path, feed: Feed) -> None:
    add_batches(feed, range(4, 6))

    def second(data: DataFrame) -> DataFrame:
        windows = W.session("8 seconds", name="session"), W.count(3, name="count")
        query = muntin.over(data, *windows, time="window_time", by="k")
        return query.agg(n=A.count(), most=A.max("s"), first=A.first("n")).to_df()

    stream = fine(feed.stream())
    run(stream, here / "fine")
    whole = second(stream)
    run(whole, here / "ours")
    of_table = second(spark.read.schema(stream.schema).parquet(str(here / "fine" / "out")))
    found, expected = (
        {(row.window_name, row.k, row.window_id, row.n, row.most, row.first) for row in rows}
        for rows in (results(spark, whole, here / "ours"), of_table.collect())
    )
    assert {name for name, *_ in found} == {"session", "count"}
    assert found <= expected, "the last ones are still open"
    assert len(found) > len(expected) // 2


def test_results_are_united_and_joined(spark: SparkSession, here: Path, feed: Feed) -> None:
    other = Feed(spark, here / "two", SCHEMA)
    add_batches(other, range(1, 4), seed=7)
    add_batches(feed, range(3, 5))
    names = spark.createDataFrame([("a", "Anna"), ("b", "Bert")], "k string, who string")

    def united(of: Callable[[DataFrame], DataFrame]) -> DataFrame:
        return sparks_coarse(of(feed.stream()).union(of(other.stream())).join(names, "k"))

    run(united(sparks_fine), here / "spark")
    run(united(fine), here / "ours")
    found = keyed(results(spark, united(fine), here / "ours"), "k")
    assert_same(found, keyed(results(spark, united(sparks_fine), here / "spark"), "k"))
    assert len(found) >= 2

    def joined(of: Callable[[DataFrame], DataFrame]) -> DataFrame:
        left, right = (of(each.stream()) for each in (feed, other))
        left = left.select("k", "n", F.col("window_time").alias("left_time"))
        right = right.select(F.col("k").alias("key"), "s", "window_time")
        near = left.join(right, F.expr("k = key AND window_time = left_time"))
        return near.select("k", "n", "s", F.unix_timestamp("window_time").alias("at"))

    run(joined(sparks_fine), here / "spark-joined")
    run(joined(fine), here / "joined")
    pairs, expected = (
        {(row["k"], row["at"], row["n"], row["s"]) for row in results(spark, joined(fine), here / place)}
        for place in ("joined", "spark-joined")
    )
    assert pairs == expected
    assert len(pairs) > 8


def test_metrics_are_told_apart(spark: SparkSession, here: Path, feed: Feed) -> None:
    first = fine(feed.stream(), name="fine")
    query = muntin.over(first, COARSE, time="window_time", by="k", name="coarse")
    assert repr(query).endswith('watermark="5 seconds", by=["k"], name="coarse")')
    handle = run(query.agg(n=A.sum("n")).to_df(), here / "ours")
    progress, coarse_progress = muntin.progress(handle, "fine"), muntin.progress(handle, name="coarse")
    assert progress.rows == feed.table().count() > 0
    assert coarse_progress.rows == progress.results > 0
    assert muntin.progress(handle) == coarse_progress
    with pytest.raises(MuntinError, match=r"name is 'both'.*no query of that name. It has 'coarse', 'fine'"):
        muntin.progress(handle, "both")
    with pytest.raises(MuntinError, match=r"name must be a text such as 'fares'.*got 3"):
        muntin.over(first, COARSE, time="window_time", name=3)  # type: ignore[arg-type]


def test_what_spark_forbids_is_said_when_the_query_is_built(feed: Feed) -> None:
    first = fine(feed.stream())
    with pytest.raises(MuntinError, match=r"watermark is 1 minute, but the time column 'window_time' of data has one"):
        muntin.over(first, COARSE, time="window_time", watermark="1 minute").agg(n=A.count()).to_df()
    late = first.select("window.end", "n")
    with pytest.raises(MuntinError, match=r"give its column window_time as time"):
        muntin.over(late, COARSE, time="end", watermark="1 minute").agg(n=A.count()).to_df()
    second = first.withWatermark("window_time", "3 seconds")
    for chained in (second, second.union(first), first.withWatermark("window_time", "0 seconds")):
        with pytest.raises(
            MuntinError, match=r"on 'window_time', by withWatermark, over another.*that of another query"
        ):
            coarse(chained)
    over_rows = feed.stream().withWatermark("ts", "5 seconds")
    coarse(fine_of(over_rows).union(fine_of(over_rows)))
    updates = muntin.over(feed.stream(), FINE, time="ts", watermark="5 seconds", by="k").agg(n=A.count(), s=A.sum("v"))
    waiting = muntin.over(feed.stream(), W.count(3, max_wait="1 minute"), time="ts", watermark="5 seconds", by="k")
    for several in (updates.emit("on_change"), updates.late("update", within="1 minute"), waiting.agg(n=A.count())):
        with pytest.raises(
            MuntinError, match=r"watermark is missing, and 'window_time' has no watermark. Results have"
        ):
            muntin.over(several.to_df(), COARSE, time="window_time")
        counted = muntin.over(several.to_df(), COARSE, time="window_time", watermark="1 second").agg(n=A.count())
        with pytest.raises(MuntinError, match=r"data has a watermark already, and 'window_time' has no watermark"):
            counted.to_df()
    named = fine(feed.stream(), name="fine")
    with pytest.raises(MuntinError, match=r"name is 'fine', which is that of the query whose results are the data"):
        muntin.over(named, COARSE, time="window_time", name="fine").agg(n=A.count()).to_df()
    with pytest.raises(MuntinError, match=r"'window_time' is a column that Muntin adds to results"):
        muntin.over(feed.table(), COARSE, time="ts").agg(window_time=A.count())
