"""Keys of every type that Spark groups by, from none to very many."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import assert_same, keyed

NAN, INF = float("nan"), float("inf")
DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 5)

KEYS: dict[str, list[Any]] = {
    "string": ["a", "", None, "ä", "a\x00b"],
    "int": [1, -1, 0, None, 2**31 - 1],
    "bigint": [2**62, -(2**63), 0, None],
    "smallint": [1, None, -5],
    "date": [DAY, None, dt.date(1, 1, 1)],
    "timestamp": [NOON, None, dt.datetime(1960, 1, 1)],
    "timestamp_ntz": [NOON, None],
    "boolean": [True, False, None],
    "double": [0.0, -0.0, NAN, -NAN, INF, -INF, 1.5, None],
    "float": [0.1, -0.0, 0.0, NAN, None],
    "decimal(20,3)": [Decimal("1.500"), Decimal("-7.000"), None],
    "binary": [bytearray(b"a"), bytearray(b""), None],
    "void": [None, None],
    "struct<a:int,b:struct<c:string,d:double>>": [
        (1, ("x", -0.0)),
        (1, ("x", 0.0)),
        (1, (None, NAN)),
        (None, ("x", 0.0)),
        (None, None),
        None,
    ],
}


def compare(frame: DataFrame, *keys: str) -> None:
    """Rows with the key as a string of SQL, so that the judge's idea of equal keys is the only one."""
    ours = muntin.over(frame, W.sliding("10 seconds", "5 seconds"), time="ts", by=keys).agg(n=A.count(), s=A.sum("v"))
    judge = frame.groupBy(F.window("ts", "10 seconds", "5 seconds"), *keys).agg(
        F.count(F.lit(1)).alias("n"), F.sum("v").alias("s")
    )
    shown = [F.col(key).cast("string").alias(key) for key in keys]
    left = keyed(ours.to_df().select("window", *shown, "n", "s").collect(), *keys)
    right = keyed(judge.select("window", *shown, "n", "s").collect(), *keys)
    assert right
    assert_same(left, right)


def rows(spark: SparkSession, values: list[Any], kind: str) -> DataFrame:
    many = [(index, value) for index, value in enumerate(values * 5)]
    frame = spark.createDataFrame(many, f"v int, k {kind}")
    return frame.withColumn("ts", F.timestamp_seconds(F.col("v") % 13 - 6))


@pytest.mark.parametrize("kind", list(KEYS))
def test_a_key_of_every_type(spark: SparkSession, kind: str) -> None:
    compare(rows(spark, KEYS[kind], kind), "k")


@pytest.mark.parametrize("time", ["timestamp", "timestamp_ntz"])
def test_windows_over_tuples_by_keys_of_every_type(spark: SparkSession, time: str) -> None:
    """Several keys at once, each of them sometimes null: sessions and every two tuples, as Spark would number them."""
    kinds = ["string", "date", "double", "struct<a:int,b:struct<c:string,d:double>>"]
    columns = [KEYS[kind] for kind in kinds]
    many = [(i, *(values[i // (position + 1) % 3] for position, values in enumerate(columns))) for i in range(240)]
    keys = [f"k{position}" for position in range(len(kinds))]
    schema = ", ".join(f"{key} {kind}" for key, kind in zip(keys, kinds, strict=True))
    frame = spark.createDataFrame(many, f"v int, {schema}")
    frame = frame.withColumn("ts", F.timestamp_seconds(F.col("v") * 37 % 240 - 40).cast(time))
    windows = [W.session("20 seconds", name="session"), W.count(2, name="two")]
    ours = muntin.over(frame, *windows, time="ts", by=keys).agg(n=A.count(), s=A.sum("v"), top=A.argmax("k0", "v"))
    cells = [F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"), F.max_by("k0", "v").alias("top")]
    number = F.row_number().over(Over.partitionBy(*keys).orderBy("ts")) - 1
    pairs = frame.withColumn("pair", F.floor(number / 2)).groupBy(*keys, "pair")
    bounds = F.struct(F.min("ts").alias("start"), F.max("ts").alias("end")).alias("window")
    judges = {
        "session": frame.groupBy(F.session_window("ts", "20 seconds").alias("window"), *keys).agg(*cells),
        "two": pairs.agg(bounds, *cells).where("n = 2"),
    }
    shown = [F.col(key).cast("string").alias(key) for key in keys]
    found = ours.to_df().select("window", "window_name", *shown, "n", "s", "top").collect()
    for name, judge in judges.items():
        expected = keyed(judge.select("window", *shown, "n", "s", "top").collect(), *keys)
        assert len(expected) > 20
        assert_same(keyed(found, *keys, only=name), expected)


def test_several_keys_and_none(spark: SparkSession) -> None:
    frame = rows(spark, KEYS["double"], "double").withColumn("name", F.concat(F.lit("n"), F.col("v") % 3))
    compare(frame.withColumn("even", F.col("v") % 2 == 0), "name", "k", "even")
    compare(frame)


def test_a_key_that_is_also_aggregated_and_the_time_as_a_key(spark: SparkSession) -> None:
    frame = rows(spark, KEYS["int"], "int")
    compare(frame, "v")
    compare(frame, "ts", "k")


@pytest.mark.extended
def test_very_many_keys(spark: SparkSession) -> None:
    """A million keys, each in a window or two: far more pairs than the dense table of the pane stage holds."""
    frame = spark.range(0, 1_500_000).select(
        (F.col("id") % 1_000_000).alias("k"), F.timestamp_seconds(F.col("id") % 20).alias("ts"), F.col("id").alias("v")
    )
    ours = muntin.over(frame, W.sliding("10 seconds", "5 seconds"), time="ts", by="k").agg(n=A.count(), s=A.sum("v"))
    judge = frame.groupBy(F.window("ts", "10 seconds", "5 seconds"), "k").agg(
        F.count(F.lit(1)).alias("n"), F.sum("v").alias("s")
    )
    differ = ours.to_df().select(*judge.columns).exceptAll(judge).count()
    assert differ == 0
    assert ours.to_df().count() == judge.count()


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_windows_have_the_type_of_the_time(spark: SparkSession, kind: str) -> None:
    frame = rows(spark, KEYS["int"], "int").withColumn("ts", F.col("ts").cast(kind))
    result = muntin.over(frame, W.tumbling("5 seconds"), time="ts").agg(n=A.count(), when=A.argmax("v")).to_df()
    assert result.select("window.start").schema["start"].dataType.simpleString() == kind
    assert result.schema["when"].dataType.simpleString() == kind
    judge = frame.groupBy(F.window("ts", "5 seconds")).agg(
        F.count(F.lit(1)).alias("n"), F.min_by("ts", F.struct(-F.col("v"), "ts")).alias("when")
    )
    assert_same(keyed(result.collect()), keyed(judge.collect()))


def test_results_of_two_tables_can_be_united(spark: SparkSession) -> None:
    frame = rows(spark, KEYS["int"], "int")
    one, two = (muntin.over(frame, W.tumbling(size), time="ts").agg(n=A.count()).to_df() for size in ("2 s", "4 s"))
    assert one.unionByName(two).count() == one.count() + two.count()
    assert one.join(two, "window_id").count() > 0
