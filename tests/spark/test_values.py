"""Values of every type, and what overflows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import assert_same, keyed

NAN = float("nan")
VALUES: dict[str, list[Any]] = {
    "string": ["b", "a", None, "Z", "ß", ""],
    "binary": [bytearray(b"b"), bytearray(b"\xff"), None],
    "boolean": [True, False, None],
    "date": [dt.date(2024, 2, 29), dt.date(1, 1, 1), None],
    "timestamp": [dt.datetime(2024, 1, 1), dt.datetime(1950, 1, 1, 1, 1, 1, 1), None],
    "timestamp_ntz": [dt.datetime(2024, 1, 1), None],
    "decimal(38,2)": [Decimal("99999999999999999999.99"), Decimal("-5.01"), None],
    "tinyint": [-128, 127, None],
    "bigint": [2**63 - 1, -(2**63), None],
    "float": [0.1, NAN, None, -1e30],
    "double": [0.1, NAN, None, float("-inf"), -0.0],
    "interval day to second": [dt.timedelta(days=1), dt.timedelta(seconds=-5), None],
}


@pytest.mark.parametrize("kind", list(VALUES))
def test_extremes_of_every_type(spark: SparkSession, kind: str) -> None:
    many = [(index, value) for index, value in enumerate(VALUES[kind] * 4)]
    frame = spark.createDataFrame(many, f"i int, v {kind}").withColumn("ts", F.timestamp_seconds(F.col("i") % 7))
    ours = muntin.over(frame, W.sliding("3 seconds", "1 second"), time="ts").agg(
        least=A.min("v"),
        most=A.max("v"),
        known=A.count("v"),
        first=A.first("v"),
        last=A.last("v"),
        at=A.argmax("v", "i"),
    )
    known = F.col("v").isNotNull()
    judge = frame.groupBy(F.window("ts", "3 seconds", "1 second")).agg(
        F.min("v").alias("least"),
        F.max("v").alias("most"),
        F.count("v").alias("known"),
        F.min_by("v", F.when(known, F.struct("ts", "v"))).alias("first"),
        F.max_by("v", F.when(known, F.struct("ts", "v"))).alias("last"),
        F.max_by("v", "i").alias("at"),
    )
    result = ours.to_df()
    assert [result.schema[name].dataType for name in ("least", "first", "at")] == [frame.schema["v"].dataType] * 3
    assert_same(keyed(result.collect()), keyed(judge.collect()))


def test_counts_of_extremes(spark: SparkSession) -> None:
    values = [3.0, NAN, 1.0, 1.0, NAN, None, 3.0, 1.0]
    frame = spark.createDataFrame([(v,) for v in values], "v double").withColumn("ts", F.timestamp_seconds(F.lit(1)))
    query = muntin.over(frame, W.tumbling("5 seconds"), time="ts").agg(
        most=A.max_count("v"), least=A.min_count("v"), none=A.max_count("v", where="v > 100 and v < 200")
    )
    (row,) = query.to_df().collect()
    assert (row.most, row.least, row.none) == (2, 3, 0)


def test_a_sum_that_overflows_stops_the_query(spark: SparkSession) -> None:
    frame = spark.range(3).select(F.timestamp_seconds("id").alias("ts"), F.lit(2**62).alias("v"))
    tumbling = muntin.over(frame, W.tumbling("1 second"), time="ts").agg(s=A.sum("v"))
    assert {row.s for row in tumbling.to_df().collect()} == {2**62}
    wide = muntin.over(frame, W.tumbling("10 seconds"), time="ts").agg(s=A.sum("v"))
    with pytest.raises(PySparkException, match="sum of column 'v' overflows"):
        wide.to_df().collect()


def test_variance_far_from_zero(spark: SparkSession) -> None:
    frame = spark.range(1000).select(F.timestamp_seconds("id").alias("ts"), (F.col("id") % 2 + 1e9).alias("v"))
    query = muntin.over(frame, W.tumbling("1000 seconds"), time="ts").agg(v=A.var_pop("v"))
    (row,) = query.to_df().collect()
    assert row.v == pytest.approx(0.25, rel=1e-9)


def test_a_custom_aggregate_in_time_order(spark: SparkSession) -> None:
    """How often a value changes: associative, not commutative, a state of three columns."""
    frame = spark.range(200).select(
        F.timestamp_seconds((F.col("id") * 37) % 200).alias("ts"),
        ((F.col("id") * 37) % 200 % 7 > 3).cast("int").alias("v"),
    )
    changes = A.custom(
        lift=lambda v: {"first": v, "last": v, "changes": v * 0},
        combine=lambda a, b: {
            "first": a["first"],
            "last": b["last"],
            "changes": a["changes"] + b["changes"] + (a["last"] != b["first"]),
        },
        lower=lambda s: s["changes"],
        returns="long",
    )
    result = muntin.over(frame, W.sliding("20 seconds", "5 seconds"), time="ts").agg(c=changes).to_df()
    ordered = sorted((row.ts.timestamp(), row.v) for row in frame.collect())
    for row in result.collect():
        inside = [v for t, v in ordered if row.window.start.timestamp() <= t < row.window.end.timestamp()]
        assert row.c == sum(a != b for a, b in pairwise(inside))
