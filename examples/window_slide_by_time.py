"""Slide by time: every ten minutes, the mean of the last three measurements of each well, however old they are."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
LEVELS = [(1, "north", 3.0), (4, "north", 3.3), (8, "north", 3.6), (9, "north", 3.9), (35, "north", 6.0)]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    rows = [(NOON + timedelta(minutes=minute), well, level) for minute, well, level in LEVELS]
    levels = spark.createDataFrame(rows, "at timestamp, well string, level double")
    # A row every ten minutes, from 12:10 to 12:40. Nothing was measured between 12:10 and 12:30, so the same three
    # values are repeated. At 12:40 the new value has replaced the oldest.
    (
        muntin.over(levels, W.slide_by_time(3, "10 minutes"), time="at", by="well")
        .agg(measured=A.count(), mean=A.mean("level"), latest=A.last("level"))
        .to_df()
        .orderBy("well", "window_id")
        .selectExpr("well", "date_format(window.end, 'HH:mm') AS until", "measured", "round(mean, 2) AS mean", "latest")
        .show()
    )


if __name__ == "__main__":
    main()
