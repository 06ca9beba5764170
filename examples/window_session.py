"""Session windows: visits to a web site, which end after half an hour without a click."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
CLICKS = [(0, "ana", "home"), (12, "ana", "news"), (42, "ana", "sport"), (73, "ana", "home"), (20, "ben", "news")]


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    rows = [(NOON + timedelta(minutes=minute), user, page) for minute, user, page in CLICKS]
    clicks = spark.createDataFrame(rows, "at timestamp, user string, page string")
    # Ana's clicks at 12:12 and 12:42 are exactly the gap apart and belong to one visit. The click at 13:13 is a minute
    # too late and begins another. A visit ends half an hour after its last click, so the bounds differ between users.
    (
        muntin.over(clicks, W.session("30 minutes"), time="at", by="user")
        .agg(clicks=A.count(), entry=A.first("page"), exit=A.last("page"))
        .to_df()
        .orderBy("user", "window_id")
        .select("user", "window", "clicks", "entry", "exit")
        .show(truncate=False)
    )


if __name__ == "__main__":
    main()
