"""Distinct counts and frequent values: how many visitors a site had in the last two hours, and what they read most."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
VIEWS = [(5, "ana", "news"), (20, "ana", "sport"), (50, "ben", "news"), (70, "ana", "news"), (80, "cas", "sport")]
VIEWS += [(130, "ben", "sport"), (140, "ben", "chess"), (150, "ben", "chess")]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # as the times are written here
    rows = [(NOON + timedelta(minutes=minute), user, page) for minute, user, page in VIEWS]
    views = spark.createDataFrame(rows, "at timestamp, user string, page string")
    # Distinct counts do not add up: Ana is in three windows and counts once in each. Pages that were read as often as
    # each other go by their name, so that the answer does not depend on who came first.
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
