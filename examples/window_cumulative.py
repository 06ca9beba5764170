"""Cumulative windows: the sales of a shop today so far, every six hours."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

MIDNIGHT = datetime(2024, 5, 1, tzinfo=timezone.utc)
SALES = [(5, 3.5), (9, 12.0), (11, 4.0), (16, 20.5), (23, 8.0), (24 + 10, 6.0)]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    rows = [(MIDNIGHT + timedelta(hours=hour), amount) for hour, amount in SALES]
    sales = spark.createDataFrame(rows, "at timestamp, amount double")
    # The total grows from window to window. The last window of a day has the total of the day; the next day starts at
    # zero. Nothing was sold until 06:00 of the second day, so that window has no row.
    (
        muntin.over(sales, W.cumulative("1 day", "6 hours"), time="at")
        .agg(sales=A.count(), total=A.sum("amount"))
        .to_df()
        .orderBy("window_id")
        .selectExpr("window_id", "date_format(window.end, 'dd HH:mm') AS until", "sales", "total")
        .show(truncate=False)
    )


if __name__ == "__main__":
    main()
