"""Sliding windows: the mean temperature of the last half hour, every ten minutes, of two sensors."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
READINGS = [(0, "attic", 21.0), (10, "attic", 24.0), (20, "attic", 30.0), (30, "attic", 33.0), (5, "cellar", 12.0)]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    rows = [(NOON + timedelta(minutes=minute), sensor, degrees) for minute, sensor, degrees in READINGS]
    readings = spark.createDataFrame(rows, "at timestamp, sensor string, degrees double")
    # Every reading is in three windows, but Muntin processes it once: it aggregates panes of ten minutes, and combines
    # three of them for each window. The first window of the attic ends at 12:10 and contains only the reading at 12:00.
    (
        muntin.over(readings, W.sliding("30 minutes", "10 minutes"), time="at", by="sensor")
        .agg(mean=A.mean("degrees"), latest=A.last("degrees"))
        .to_df()
        .orderBy("sensor", "window_id")
        .selectExpr("sensor", "date_format(window.end, 'HH:mm') AS until", "mean", "latest")
        .show()
    )


if __name__ == "__main__":
    main()
