"""Run by test_connect in a process of its own."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.spark.metrics import metrics_of
from tests.spark.streams import Feed, assert_same, keyed, results, run


def main(place: Path) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    muntin.configure(spark)
    feed = Feed(spark, place / "in", "ts timestamp, k string, v long")
    for index in range(3):
        times = [(index * 20 + second) * 1_000_000 for second in range(20)]
        feed.add(
            pa.table(
                {
                    "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
                    "k": [f"k{second % 3}" for second in range(20)],
                    "v": pa.array(range(20), pa.int64()),
                }
            )
        )
    cells = [F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"), F.median("v").alias("mid")]
    judges = {
        "ten": F.window("ts", "10 seconds", "5 seconds"),
        "session": F.session_window("ts", "4 seconds").alias("window"),
    }

    def ours(frame: object) -> muntin.Query:
        query = muntin.over(
            frame,  # type: ignore[arg-type]
            W.sliding("10 seconds", "5 seconds", name="ten"),
            W.session("4 seconds", name="session"),
            W.count(5, name="five"),
            time="ts",
            watermark="2 seconds",
            by="k",
        )
        return query.agg(n=A.count(), s=A.sum("v"), mid=A.median("v"), some=A.count(where=F.col("v") > 5))

    table = ours(feed.table()).to_df().drop("some").collect()
    stream = ours(feed.stream()).to_df()
    handle = run(stream, place / "ours")
    streamed = results(spark, stream.drop("some"), place / "ours")
    for name, window in judges.items():
        expected = feed.table().groupBy(window, "k").agg(*cells)
        assert_same(keyed(table, "k", only=name), keyed(expected.collect(), "k"))
        judge = feed.stream().withWatermark("ts", "2 seconds").groupBy(window, "k").agg(*cells)
        run(judge, place / name)
        closed = keyed(results(spark, judge, place / name), "k")
        assert closed
        assert_same(keyed(streamed, "k", only=name), closed)
    fives = [(row.k, row.window_id, row.n) for row in table if row.window_name == "five"]
    assert sorted(fives) == [(f"k{key}", number, 5) for key in range(3) for number in range((21, 21, 18)[key] // 5)]
    check_a_function(feed)
    check_a_join(feed)
    check_expressions(feed)
    check_ranks(feed, place)
    check_a_rate(feed)
    progress = muntin.progress(handle)
    assert (progress.rows, progress.chunks > 0, progress.batch_seconds > 0) == (60, True, True), progress
    print("connect: streams and tables agree with Spark")
    spark.stop()


def check_a_function(feed: Feed) -> None:
    def extremes(tuples: pa.Table) -> pa.Table:
        values = sorted(tuples.column("v").to_pylist())
        return pa.table({"low": values[:1], "high": values[-1:]})

    ours = muntin.over(feed.table(), W.tumbling("10 seconds"), time="ts", by="k").apply(extremes, "low long, high long")
    cells = [F.min("v").alias("low"), F.max("v").alias("high")]
    expected = feed.table().groupBy(F.window("ts", "10 seconds"), "k").agg(*cells)
    assert_same(keyed(ours.to_df().collect(), "k"), keyed(expected.collect(), "k"))


def check_a_rate(feed: Feed) -> None:
    """Set by hand, from the client."""
    query = muntin.over(feed.stream(), W.tumbling("10 seconds"), time="ts", watermark="2 seconds", by="k")
    frame = query.agg(n=A.count(), middle=A.median("v")).shed(rate=0).to_df()
    stream = frame.writeStream.format("noop").trigger(processingTime="2 seconds").start()
    while not stream.recentProgress:
        time.sleep(0.1)
    muntin.shed_rate(stream, 0.75)
    stream.processAllAvailable()
    rates = [metrics["shed_rate"] for report in stream.recentProgress if (metrics := metrics_of(report))]
    assert rates[0] == 0, rates
    assert 750_000 in rates, rates
    stream.stop()


def check_expressions(feed: Feed) -> None:
    """Names by case, expressions that are keys, and errors that Spark explains."""
    table = feed.table().selectExpr("ts", "k", "v as `a.b`")
    less, more = (F.udf(each, "long") for each in (lambda v: v - 1, lambda v: v + 1))
    ours = muntin.over(table, W.tumbling("10 seconds"), time="date_trunc('second', TS)", by=[F.upper("k"), "a.b"]).agg(
        twice=A.sum(F.col("`A.b`") * 2), less=A.sum(less("`a.b`")), more=A.sum(more("`a.b`"))
    )
    value = F.col("`a.b`")
    cells = [F.sum(value * 2).alias("twice"), F.sum(value - 1).alias("less"), F.sum(value + 1).alias("more")]
    expected = table.groupBy(F.window("ts", "10 seconds"), F.upper("k"), value).agg(*cells)
    keys = "upper(k)", "a.b"
    assert_same(keyed(ours.to_df().collect(), *keys), keyed(expected.collect(), *keys))
    for wrong, reason in (("kk", "not in the data. Did you mean 'k'"), ("rand()", "has another value each time")):
        with pytest.raises(muntin.MuntinError, match=reason):
            muntin.over(table, W.tumbling("10 seconds"), time="ts", by=wrong)


def check_a_join(feed: Feed) -> None:
    """Rows, and aggregates that are multiplied or, for a condition on both sides, over the pairs."""
    left, right = feed.table(), feed.table().where("v > 3")
    join = muntin.join(left, right, W.tumbling("10 seconds"), on="k", time="ts")
    one, two = (side.withColumn("window", F.window("ts", "10 seconds")) for side in (left, right))
    pairs = one.withColumnRenamed("v", "left_v").join(two.withColumnRenamed("v", "right_v"), ["window", "k"])
    assert join.rows().count() == pairs.count()
    many = F.count_if(F.col("left_v") > F.col("right_v")).alias("more")
    expected = pairs.groupBy("window", "k").agg(F.count(F.lit(1)).alias("n"), F.sum("left_v").alias("s"), many)
    total = join.agg(n=A.count(), s=A.sum("left_v"))
    for query, judge in (
        (total, expected.drop("more")),
        (total.agg(more=A.count(where="left_v > right_v")), expected),
    ):
        assert_same(keyed(query.to_df().collect(), "k"), keyed(judge.collect(), "k"))


def check_ranks(feed: Feed, place: Path) -> None:
    def ours(frame: object) -> muntin.Query:
        query = muntin.over(frame, W.tumbling("10 seconds"), time="ts", watermark="2 seconds", by="k")  # type: ignore[arg-type]
        return query.agg(n=A.count(), s=A.sum("v"))

    sums = {(row.window_id, row.k): row.s for row in ours(feed.table()).to_df().collect()}
    expected = [
        (window, rank, key)
        for window in range(6)
        for rank, key in enumerate(sorted(["k0", "k1", "k2"], key=lambda key: (-sums[window, key], key))[:2], 1)
    ]
    ranked = ours(feed.table()).top(2, by="s").to_df().collect()
    assert [(row.window_id, row["rank"], row.k) for row in ranked] == expected
    drift = muntin.drift(ours(feed.table()).to_df()).collect()
    assert [row.overlap for row in drift] == [1.0] * 5, drift
    stream = ours(feed.stream()).top(2, by="s").to_df()
    handle = run(stream, place / "ranked")
    streamed = results(feed.table().sparkSession, stream, place / "ranked")
    assert sorted((row.window_id, row["rank"], row.k) for row in streamed) == expected[: len(streamed)] != []
    assert muntin.progress(handle).overlap == 1.0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
