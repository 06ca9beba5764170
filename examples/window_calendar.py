"""Calendar windows: the current of a meter by local day, over a night in which clocks are put forward."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

MIDNIGHT = datetime(2024, 3, 29, 23, tzinfo=timezone.utc)  # in Berlin


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")  # to show the times as clocks there show them
    rows = [(MIDNIGHT + timedelta(hours=hour), 0.5) for hour in range(3 * 24)]
    meter = spark.createDataFrame(rows, "at timestamp, kwh double")
    # One value per hour: the second day has 23 of them. Windows in UTC would begin at one or two o'clock.
    (
        muntin.over(meter, W.calendar("1 day", zone="Europe/Berlin"), time="at")
        .agg(hours=A.count(), kwh=A.sum("kwh"))
        .to_df()
        .orderBy("window_id")
        .selectExpr("date_format(window.start, 'dd MMM HH:mm') AS since", "hours", "kwh")
        .show(truncate=False)
    )


if __name__ == "__main__":
    main()
