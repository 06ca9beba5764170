"""Slide by tuple: at every second alarm of a machine, the ten minutes up to that alarm."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
ALARMS = [(0, 71.0), (2, 75.0), (4, 73.0), (20, 90.0), (21, 96.0), (22, 99.0)]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    rows = [(NOON + timedelta(minutes=minute), degrees) for minute, degrees in ALARMS]
    alarms = spark.createDataFrame(rows, "at timestamp, degrees double")
    # Three windows for six alarms: the second, the fourth and the sixth are triggers. More alarms make more windows;
    # without alarms, there are none. The alarm at 12:04 is in no window: the next trigger is 16 minutes later.
    (
        muntin.over(alarms, W.slide_by_tuple("10 minutes", 2), time="at")
        .agg(alarms=A.count(), hottest=A.max("degrees"))
        .to_df()
        .orderBy("window_id")
        .selectExpr("window_id", "date_format(window.end, 'HH:mm') AS trigger", "alarms", "hottest")
        .show()
    )


if __name__ == "__main__":
    main()
