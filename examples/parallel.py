"""Sliding-window parallelism: a line through the delays of every week, one week each day, fitted by all cores."""

from pathlib import Path

import numpy as np
import pandas as pd

import muntin
from muntin import windows as W


def trend(flights: pd.DataFrame) -> pd.DataFrame:
    """The increase of the delay per hour of the day, by least squares."""
    known = flights.dropna()
    hour = known["departure"].dt.hour.to_numpy(dtype=float)
    slope, _ = np.polyfit(hour, known["dep_delay"].to_numpy(dtype=float), 1)
    return pd.DataFrame({"flights": [len(known)], "minutes_per_hour": [round(float(slope), 3)]})


def main() -> None:
    spark = muntin.session()
    files = str(Path(muntin.__file__).parent / "data" / "*.parquet")
    flights = spark.read.parquet(files)

    query = muntin.over(flights, W.sliding("7 days", "1 day"), time="departure").apply(
        trend, "flights long, minutes_per_hour double", columns=["departure", "dep_delay"]
    )
    spread = query.parallel()
    spread.explain()

    rows = {model: query.parallel(model=model, ordered=True).to_df().collect() for model in ("active", "agnostic")}
    print("\nthe weeks in which delays grow fastest during the day")
    for row in sorted(rows["agnostic"], key=lambda row: -row.minutes_per_hour)[:3]:
        print(f"  week until {row.window.end:%d %b}: {row.minutes_per_hour} minutes per hour, {row.flights:,} flights")
    print(f"{len(rows['active'])} windows; active and agnostic workers agree: {rows['active'] == rows['agnostic']}")


if __name__ == "__main__":
    main()
