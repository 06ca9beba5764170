"""Tumbling windows: the people who went through each door, per quarter of an hour."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
PASSAGES = [(0, "east", 2), (3, "west", 1), (9, "east", 1), (14, "east", 3), (15, "east", 1), (44, "west", 2)]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    rows = [(NOON + timedelta(minutes=minute), door, people) for minute, door, people in PASSAGES]
    passages = spark.createDataFrame(rows, "at timestamp, door string, people long")
    # Every row counts once, so the totals of all windows add up to the total of the day. The row at 12:15 is in the
    # second window. A door that nobody went through has no row for that quarter.
    (
        muntin.over(passages, W.tumbling("15 minutes"), time="at", by="door")
        .agg(people=A.sum("people"), largest_group=A.max("people"))
        .to_df()
        .orderBy("door", "window_id")
        .selectExpr("door", "date_format(window.start, 'HH:mm') AS start", "people", "largest_group")
        .show()
    )


if __name__ == "__main__":
    main()
