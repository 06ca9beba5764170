"""Median and quantiles: the times of typical and of slow laps over the last half hour, every quarter of an hour."""

from datetime import datetime, timedelta, timezone

from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
LAPS = [(1, 61.0), (4, 60.0), (9, 63.0), (14, 240.0), (17, 62.0), (22, 61.0), (38, 60.0), (44, 59.0)]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    rows = [(NOON + timedelta(minutes=minute), seconds) for minute, seconds in LAPS]
    laps = spark.createDataFrame(rows, "at timestamp, seconds double")
    # A lap of four minutes, in the pit, moves the mean by half a minute and the median hardly at all. All results are
    # exact, and interpolate between two laps as Spark's `percentile` does. The mean is still computed from panes.
    (
        muntin.over(laps, W.sliding("30 minutes", "15 minutes"), time="at")
        .agg(mean=A.mean("seconds"), median=A.median("seconds"), tails=A.quantile("seconds", [0.1, 0.9]))
        .to_df()
        .orderBy("window_id")
        .withColumn("tails", F.transform("tails", lambda value: F.round(value, 1)))
        .selectExpr("date_format(window.end, 'HH:mm') AS until", "round(mean, 1) AS mean", "median", "tails")
        .show(truncate=False)
    )


if __name__ == "__main__":
    main()
