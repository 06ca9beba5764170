"""Count windows: the last four trades of every share, every two trades, or fewer after ten minutes without a trade."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
ACME = [(0, 10.0), (1, 12.0), (2, 11.0), (30, 15.0), (31, 16.0), (32, 18.0)]
XYZ = [(0, 80.0), (20, 90.0)]


def main() -> None:
    spark = muntin.session()
    rows = [
        (NOON + timedelta(minutes=minute), share, price)
        for share, trades in (("ACME", ACME), ("XYZ", XYZ))
        for minute, price in trades
    ]
    table = spark.createDataFrame(rows, "at timestamp, share string, price double")
    # After three trades, ACME paused for 28 minutes. So its window 0 is emitted twice: first incomplete, with `partial`
    # true, then complete. XYZ never has four trades: without max_wait it would have no result.
    (
        muntin.over(table, W.count(4, 2, max_wait="10 minutes"), time="at", by="share")
        .agg(trades=A.count(), mean=A.mean("price"))
        .to_df()
        .orderBy("share", "window_id", "trades")
        .select("share", "window_id", "partial", "trades", "mean")
        .show()
    )


if __name__ == "__main__":
    main()
