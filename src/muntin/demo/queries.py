"""The same query for Muntin and for plain Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.durations import describe

HOURS = W.sliding("6 hours", "15 minutes", name="6 hours")
DAY = W.sliding("1 day", "10 minutes", name="1 day")
WEEK = W.sliding("7 days", "6 hours", name="7 days")
WINDOWS = (HOURS, DAY, WEEK)
WATERMARK = "2 hours"
MEASURES = ("flights", "mean_delay", "worst_delay", "cancelled")


def with_muntin(flights: DataFrame) -> DataFrame:
    return (
        muntin.over(
            flights,
            *WINDOWS,
            time="departure",
            watermark=WATERMARK,
            by="origin",
        )
        .agg(
            flights=A.count(),
            mean_delay=A.mean("dep_delay"),
            worst_delay=A.max("dep_delay"),
            cancelled=A.count(where="dep_delay IS NULL"),
        )
        .to_df()
    )


def with_spark(flights: DataFrame, window: W.TimeWindow) -> DataFrame:
    """Spark takes one time window per query, so three windows are three queries over the same files."""
    return (
        flights.withWatermark("departure", WATERMARK)
        .groupBy("origin", F.window("departure", describe(window.size), describe(window.slide)))
        .agg(
            F.count("*").alias("flights"),
            F.avg("dep_delay").alias("mean_delay"),
            F.max("dep_delay").alias("worst_delay"),
            F.count_if(F.col("dep_delay").isNull()).alias("cancelled"),
        )
    )
