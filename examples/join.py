"""A join: which adverts were shown and clicked within the same ten minutes, pair by pair and in figures."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
SHOWN = [(1, "tea", 30), (4, "tea", 20), (6, "shoes", 50), (12, "tea", 40)]
CLICKED = [(3, "tea", "ana"), (8, "tea", "ben"), (9, "shoes", "cas"), (27, "tea", "ana")]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # as the times are written here
    shown = spark.createDataFrame(
        [(NOON + timedelta(minutes=minute), ad, cents) for minute, ad, cents in SHOWN],
        "at timestamp, ad string, cents long",
    )
    clicked = spark.createDataFrame(
        [(NOON + timedelta(minutes=minute), ad, user) for minute, ad, user in CLICKED],
        "at timestamp, ad string, user string",
    )
    join = muntin.join(shown, clicked, W.tumbling("10 minutes"), on="ad", time="at")
    # Both sides have a column `at`, so that each gets its side in front. Tea was shown once more, and clicked on once
    # more, in windows of which the other side has nothing: those give no row.
    (
        join.rows()
        .selectExpr(
            "ad", "cents", "user", "date_format(left_at, 'HH:mm') AS shown", "date_format(right_at, 'HH:mm') AS clicked"
        )
        .orderBy("ad", "shown", "clicked")
        .show()
    )
    # No pair is made here: of two adverts and two clicks, every advert is in two pairs. `explain()` says so.
    figures = join.agg(pairs=A.count(), cents=A.sum("cents"), typical=A.median("cents"), users=A.count_distinct("user"))
    figures.to_df().drop("window").orderBy("ad").show()
    figures.explain()


if __name__ == "__main__":
    main()
