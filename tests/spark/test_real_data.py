"""Real data, where they are: the answers of Spark on flights and on taxi rides in file order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, assert_same, keyed, results, run

DATA = Path(__file__).parents[3] / "shared" / "data"
FLIGHTS = DATA / "flights_3m" / "flights-3m.parquet"
RIDES = DATA / "nyc_yellow_2022_100k" / "yellow_tripdata_2022-01_first100k.csv.gz"


def rides_feed(spark: SparkSession, folder: Path) -> Feed:
    """Taxi rides in the order of the file, twenty thousand at a time."""
    rides = csv.read_csv(RIDES)
    rows = pa.table(
        {
            "pickup": pa.compute.assume_timezone(rides["tpep_pickup_datetime"].cast(pa.timestamp("us")), "UTC"),
            "zone": rides["PULocationID"].cast(pa.int64()),
            "fare": rides["fare_amount"].cast(pa.float64()),
        }
    )
    feed = Feed(spark, folder, "pickup timestamp, zone long, fare double")
    size = 20_000
    feed.add(*(rows.slice(begin, size) for begin in range(0, len(rows), size)))
    return feed


def differences(ours: DataFrame, judge: DataFrame, keys: list[str], exact: list[str], close: list[str]) -> int:
    """How many rows only one side has, or have with other values; floating values within rounding."""
    on = ["window", *keys]
    left = ours.select(*on, *(F.col(name).alias(f"ours_{name}") for name in exact + close), F.lit(1).alias("here"))
    right = judge.select(*on, *exact, *close, F.lit(1).alias("there"))
    both = left.join(right, on, "full_outer")
    wrong = F.col("here").isNull() | F.col("there").isNull()
    for name in exact:
        wrong |= ~F.col(name).eqNullSafe(F.col(f"ours_{name}"))
    for name in close:
        apart = F.abs(F.col(name) - F.col(f"ours_{name}")) > 1e-9 * (1 + F.abs(F.col(name)))
        wrong |= F.coalesce(apart, ~F.col(name).eqNullSafe(F.col(f"ours_{name}")))
    return both.where(wrong).count()


def flights_of_eight_days(spark: SparkSession) -> DataFrame:
    """Of every month: all of them take Spark too long."""
    flights = spark.read.parquet(str(FLIGHTS)).withColumn("date", F.col("date").cast("timestamp"))
    return flights.where(F.dayofmonth("date") <= 8)


@pytest.mark.skipif(not FLIGHTS.exists(), reason="the data set is not here")
def test_delay_per_route(spark: SparkSession) -> None:
    flights = flights_of_eight_days(spark)
    route = ["origin", "destination"]
    query = muntin.over(flights, W.sliding("1 day", "6 hours"), time="date", by=route)
    ours = query.agg(n=A.count(), worst=A.max("delay"), mean=A.mean("delay"), spread=A.stddev_samp("delay")).to_df()
    judge = flights.groupBy(F.window("date", "1 day", "6 hours"), *route).agg(
        F.count(F.lit(1)).alias("n"),
        F.max("delay").alias("worst"),
        F.avg("delay").alias("mean"),
        F.stddev_samp("delay").alias("spread"),
    )
    assert differences(ours, judge, route, ["n", "worst"], ["mean", "spread"]) == 0
    assert ours.count() == judge.count() > 200_000


@pytest.mark.skipif(not FLIGHTS.exists(), reason="the data set is not here")
def test_every_hundred_flights_of_an_airport(spark: SparkSession) -> None:
    """Flights at the same minute are ordered by the only column that is read: their delay."""
    flights = flights_of_eight_days(spark)
    query = muntin.over(flights, W.count(100), time="date", by="origin")
    ours = query.agg(n=A.count("delay"), worst=A.max("delay"), total=A.sum("delay")).to_df()
    order = Over.partitionBy("origin").orderBy("date", F.col("delay").asc_nulls_first())
    numbered = flights.withColumn("window_id", F.floor((F.row_number().over(order) - 1) / 100))
    judge = (
        numbered.groupBy("origin", "window_id")
        .agg(
            F.struct(F.min("date").alias("start"), F.max("date").alias("end")).alias("window"),
            F.count(F.lit(1)).alias("rows"),
            F.count("delay").alias("n"),
            F.max("delay").alias("worst"),
            F.sum("delay").alias("total"),
        )
        .where("rows = 100")
    )
    assert differences(ours, judge, ["origin", "window_id"], ["n", "worst", "total"], []) == 0
    assert ours.count() > 7_000


@pytest.mark.skipif(not RIDES.exists(), reason="the data set is not here")
def test_rides_in_file_order(spark: SparkSession, here: Path) -> None:
    """The file's own order is heavily disordered: the watermark drops rows, and both must drop the same."""
    feed = rides_feed(spark, here / "in")
    ours = (
        muntin.over(feed.stream(), W.sliding("1 hour", "15 minutes"), time="pickup", watermark="20 minutes", by="zone")
        .agg(n=A.count(), fare=A.sum("fare"), top=A.max("fare"))
        .to_df()
    )
    handle = run(ours, here / "ours")
    judge = (
        feed.stream()
        .withWatermark("pickup", "20 minutes")
        .groupBy(F.window("pickup", "1 hour", "15 minutes"), "zone")
        .agg(F.count(F.lit(1)).alias("n"), F.sum("fare").alias("fare"), F.max("fare").alias("top"))
    )
    run(judge, here / "spark")
    expected = keyed(results(spark, judge, here / "spark"), "zone")
    assert len(expected) > 1_000
    assert_same(keyed(results(spark, ours, here / "ours"), "zone"), expected)
    progress = muntin.progress(handle)
    assert progress.rows == 100_000
    assert progress.late_rows > 0


@pytest.mark.skipif(not RIDES.exists(), reason="the data set is not here")
def test_rides_of_a_zone_without_a_pause(spark: SparkSession, here: Path) -> None:
    feed = rides_feed(spark, here / "in")
    cells = [F.count(F.lit(1)).alias("n"), F.sum("fare").alias("fare"), F.max("fare").alias("top")]
    for kind, frame in (("table", feed.table()), ("stream", feed.stream())):
        query = muntin.over(frame, W.session("10 minutes"), time="pickup", watermark="20 minutes", by="zone")
        ours = query.agg(n=A.count(), fare=A.sum("fare"), top=A.max("fare")).to_df()
        watermarked = frame.withWatermark("pickup", "20 minutes")
        judge = watermarked.groupBy(F.session_window("pickup", "10 minutes"), "zone").agg(*cells)
        judge = judge.withColumnRenamed("session_window", "window")
        if kind == "stream":
            run(ours, here / "ours")
            run(judge, here / "spark")
            found, expected = results(spark, ours, here / "ours"), results(spark, judge, here / "spark")
        else:
            found, expected = ours.collect(), judge.collect()
        assert len(expected) > 1_000
        assert_same(keyed(found, "zone"), keyed(expected, "zone"))
