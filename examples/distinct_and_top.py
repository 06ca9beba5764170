"""Distinct counts and frequent values: the visitors of a site in the last two hours, and the pages they read most."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
VIEWS = [(5, "ana", "news"), (20, "ana", "sport"), (50, "ben", "news"), (70, "ana", "news"), (80, "cas", "sport")]
VIEWS += [(130, "ben", "sport"), (140, "ben", "chess"), (150, "ben", "chess")]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    rows = [(NOON + timedelta(minutes=minute), user, page) for minute, user, page in VIEWS]
    views = spark.createDataFrame(rows, "at timestamp, user string, page string")
    # Distinct counts do not add up: Ana is in three windows and counts once in each. Equally frequent pages are sorted
    # by name, so that the answer does not depend on the order of arrival.
    (
        muntin.over(views, W.sliding("2 hours", "1 hour"), time="at")
        .agg(visitors=A.count_distinct("user"), favourite=A.mode("page"), top=A.top_k("page", 2))
        .to_df()
        .orderBy("window_id")
        .selectExpr("date_format(window.end, 'HH:mm') AS until", "visitors", "favourite", "top")
        .show(truncate=False)
    )


if __name__ == "__main__":
    main()
