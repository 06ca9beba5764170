"""A join: the adverts that were shown and clicked within the same ten minutes, as pairs and as aggregates."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
SHOWN = [(1, "tea", 30), (4, "tea", 20), (6, "shoes", 50), (12, "tea", 40)]
CLICKED = [(3, "tea", "ana"), (8, "tea", "ben"), (9, "shoes", "cas"), (27, "tea", "ana")]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    shown = spark.createDataFrame(
        [(NOON + timedelta(minutes=minute), ad, cents) for minute, ad, cents in SHOWN],
        "at timestamp, ad string, cents long",
    )
    clicked = spark.createDataFrame(
        [(NOON + timedelta(minutes=minute), ad, user) for minute, ad, user in CLICKED],
        "at timestamp, ad string, user string",
    )
    join = muntin.join(shown, clicked, W.tumbling("10 minutes"), on="ad", time="at")
    # Both sides have a column `at`, so the result has `left_at` and `right_at`. Another show and another click of tea
    # are in windows where the other side has no row: these give no pair.
    (
        join.rows()
        .selectExpr(
            "ad", "cents", "user", "date_format(left_at, 'HH:mm') AS shown", "date_format(right_at, 'HH:mm') AS clicked"
        )
        .orderBy("ad", "shown", "clicked")
        .show()
    )
    # The aggregates are computed without building pairs: with two shows and two clicks, each show counts twice.
    # `explain()` reports this.
    figures = join.agg(pairs=A.count(), cents=A.sum("cents"), typical=A.median("cents"), users=A.count_distinct("user"))
    figures.to_df().drop("window", "window_time").orderBy("ad").show()
    figures.explain()


if __name__ == "__main__":
    main()
