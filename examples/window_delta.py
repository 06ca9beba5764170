"""Delta windows: the fuel that each car used over its last 100 km, whenever it has driven more than another 50 km."""

from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

MORNING = datetime(2024, 5, 1, 8, tzinfo=timezone.utc)
LEGS = [(0, 1000, 0.0), (30, 1040, 2.5), (55, 1060, 1.0), (300, 1090, 2.0), (330, 109, 2.0), (360, 1130, 3.0)]


def main() -> None:
    spark = muntin.session()
    rows = [(MORNING + timedelta(minutes=minute), "car 7", km, litres) for minute, km, litres in LEGS]
    legs = spark.createDataFrame(rows, "at timestamp, car string, odometer long, litres double")
    # The first leg triggers window 0, which is empty and has no row. The next triggers are at 1060 and 1130 km, each
    # more than 50 km further. A window contains the legs before its trigger. The hours in which the car stood do not
    # matter. The odometer at 109 km ran backwards: that row is invalid and ignored.
    (
        muntin.over(legs, W.delta("odometer", size=100, slide=50), time="at", by="car")
        .agg(legs=A.count(), litres=A.sum("litres"), from_km=A.min("odometer"), to_km=A.max("odometer"))
        .to_df()
        .orderBy("car", "window_id")
        .select("car", "window_id", "legs", "litres", "from_km", "to_km")
        .show()
    )


if __name__ == "__main__":
    main()
