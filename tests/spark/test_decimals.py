"""Sums and means of decimals, as Spark has them: the same values in the same types."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, assert_same, keyed, results, run

KINDS = {"decimal(5,0)": 1, "decimal(10,2)": 5, "decimal(18,6)": 9, "decimal(20,3)": 13, "decimal(38,10)": 23}
"""Each with how many digits before the point there is room for, so that no mean overflows."""


def table(spark: SparkSession, kind: str) -> DataFrame:
    """Prices of both signs, some of them null."""
    wide = f"CAST(hash(id) / 2147483648.0D * 1e{KINDS[kind]} AS {kind})"
    return spark.range(400).select(
        F.timestamp_seconds(F.col("id") % 60).alias("ts"),
        (F.col("id") % 3).alias("k"),
        F.when(F.col("id") % 11 > 0, F.expr(f"CAST(id / 7 - 25 AS {kind})")).alias("price"),
        F.when(F.col("id") % 13 > 0, F.expr(wide)).alias("other"),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_means(spark: SparkSession, kind: str) -> None:
    frame = table(spark, kind)
    ours = muntin.over(frame, W.sliding("20 seconds", "7 seconds"), time="ts", by="k").agg(
        total=A.sum("price"),
        mean=A.mean("other"),
        some=A.sum("other", where="price > 0"),
        none=A.mean("price", where="k > 5"),
    )
    judge = frame.groupBy(F.window("ts", "20 seconds", "7 seconds"), "k").agg(
        F.sum("price").alias("total"),
        F.avg("other").alias("mean"),
        F.sum(F.when(F.col("price") > 0, F.col("other"))).alias("some"),
        F.avg(F.when(F.col("k") > 5, F.col("price"))).alias("none"),
    )
    result = ours.to_df()
    for name in ("total", "mean", "some", "none"):
        assert result.schema[name].dataType == judge.schema[name].dataType
    assert_same(keyed(result.collect(), "k"), keyed(judge.collect(), "k"))


def test_a_stream_and_windows_of_tuples(spark: SparkSession, here: Path) -> None:
    schema = "ts timestamp, k string, price decimal(12,3)"
    feed = Feed(spark, here / "in", schema)
    for start in range(0, 60, 20):
        seconds = [start + i % 20 for i in range(50)]
        prices = [None if i % 9 == 4 else Decimal(i * 1_237 - 20_000).scaleb(-3) for i in range(50)]
        times = pa.array([1_000_000 * second for second in seconds], pa.timestamp("us", "UTC"))
        keys = [f"k{i % 2}" for i in range(50)]
        feed.add(pa.table({"ts": times, "k": keys, "price": pa.array(prices, pa.decimal128(12, 3))}))
    windows = (W.sliding("10 seconds", "4 seconds"), W.count(7))

    def query(frame: DataFrame, watermark: str | None) -> DataFrame:
        over = muntin.over(frame, *windows, time="ts", watermark=watermark, by="k")
        return over.agg(total=A.sum("price"), mean=A.mean("price")).to_df()

    stream = query(feed.stream(), "1 second")
    run(stream, here)
    told, expected = results(spark, stream, here), query(feed.table(), None).collect()
    assert {window.title for window in windows} == {row.window_name for row in told}
    assert len(told) >= 50
    as_values = {(row.window_name, row.window, row.k): (row.total, row.mean) for row in expected}
    for row in told:
        assert as_values[row.window_name, row.window, row.k] == (row.total, row.mean)


def test_a_join(spark: SparkSession) -> None:
    left = table(spark, "decimal(10,2)")
    right = spark.range(90).select(F.timestamp_seconds(F.col("id") % 45).alias("ts"), (F.col("id") % 4).alias("k"))
    join = muntin.join(left, right, W.tumbling("15 seconds"), on="k", time="ts")
    ours = join.agg(total=A.sum("price"), mean=A.mean("price")).to_df()
    windowed = (side.withColumn("window", F.window("ts", "15 seconds")).drop("ts") for side in (left, right))
    pairs = next(windowed).join(next(windowed), ["window", "k"])
    judge = pairs.groupBy("window", "k").agg(F.sum("price").alias("total"), F.avg("price").alias("mean"))
    assert ours.schema["total"].dataType == judge.schema["total"].dataType
    assert_same(keyed(ours.collect(), "k"), keyed(judge.collect(), "k"))


def windows_of(frame: DataFrame) -> dict[tuple[object, ...], Row]:
    return {(row.window.start, row.k): row for row in frame.collect()}


def test_with_shedding_approximation_and_ranks(spark: SparkSession) -> None:
    frame = spark.range(20_000).select(
        F.timestamp_seconds(F.col("id") % 40).alias("ts"),
        (F.col("id") % 5).alias("k"),
        (F.col("id") % 1_000 / 100 + 50).cast("decimal(8,2)").alias("price"),
    )
    over = muntin.over(frame, W.tumbling("20 seconds"), time="ts", by="k")
    query = over.agg(total=A.sum("price"), mean=A.mean("price"), most=A.max("price"), mid=A.median("price"))
    exact = windows_of(query.to_df())
    for estimated in (query.shed(rate=0.8), query.approximate(budget=2500, error=0.1)):
        told = estimated.to_df()
        kinds = [told.schema[name].dataType.simpleString() for name in ("total", "mean")]
        assert kinds == ["decimal(18,2)", "decimal(12,6)"]
        answers = windows_of(told)
        assert answers.keys() == exact.keys()
        assert {row.quality.mode for row in answers.values()} == {"approximate"}
        for key, row in answers.items():
            assert row.quality.low.mean <= float(row.mean) <= row.quality.high.mean
            assert float(row.total) == pytest.approx(float(exact[key].total), rel=0.05)
            assert float(row.mean) == pytest.approx(float(exact[key].mean), rel=0.05)
    ranked = query.top(2, by="mean").to_df().collect()
    best = sorted(exact.values(), key=lambda row: (row.window.start, -row.mean, row.k))
    expected = [(row.window.start, row.k) for i, row in enumerate(best) if i % 5 < 2]
    assert sorted((row.window.start, row["rank"], row.k) for row in ranked) == [
        (start, 1 + i % 2, k) for i, (start, k) in enumerate(expected)
    ]
    shed = query.shed(rate=0.8).top(2, by="mean").to_df().collect()
    assert {row["rank"] for row in shed} == {1, 2}
    assert all(row.quality.first_rank <= row["rank"] <= row.quality.last_rank for row in shed)


def test_a_sum_that_overflows_stops_the_query(spark: SparkSession) -> None:
    most = F.lit("9" * 38).cast("decimal(38,0)")
    frame = spark.range(2).select(F.timestamp_seconds(F.lit(1)).alias("ts"), most.alias("d"))
    query = muntin.over(frame, W.tumbling("5 seconds"), time="ts").agg(total=A.sum("d"))
    with pytest.raises(PySparkException, match="sum of column 'd' overflows decimal"):
        query.to_df().collect()
