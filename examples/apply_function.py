"""A window function: the stops of every tram trip, found in its positions."""

from datetime import datetime, timedelta, timezone

import pandas as pd

import muntin
from muntin import windows as W

MORNING = datetime(2024, 5, 1, 8, tzinfo=timezone.utc)
TRAM = [(0, 30.0), (1, 0.0), (2, 0.0), (3, 25.0), (4, 40.0), (5, 0.0), (6, 20.0), (40, 10.0), (41, 0.0), (42, 15.0)]


def stops(positions: pd.DataFrame) -> pd.DataFrame:
    """One row per stop: a run of positions with speed 0. Positions come in time order."""
    standing = positions["speed"] == 0
    run_number = (standing != standing.shift()).cumsum()
    grouped = positions[standing].groupby(run_number[standing])["at"]
    return pd.DataFrame({"since": grouped.min(), "positions": grouped.size()})


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times as they are written here
    rows = [(MORNING + timedelta(minutes=minute), "tram 5", speed) for minute, speed in TRAM]
    trams = spark.createDataFrame(rows, "at timestamp, tram string, speed double")
    # The annotation requests a pandas frame; without it, the function gets an Arrow table. Half an hour without a
    # position ends a trip. So there are two windows: the first has two stops, the second has one.
    (
        muntin.over(trams, W.session("30 minutes"), time="at", by="tram")
        .apply(stops, "since timestamp, positions long", columns=["at", "speed"])
        .to_df()
        .orderBy("since")
        .selectExpr("tram", "date_format(window.start, 'HH:mm') AS trip", "since", "positions")
        .show()
    )


if __name__ == "__main__":
    main()
