"""The ten most profitable routes of the last 15 minutes, every 5 minutes, and how much they change between windows.

This is the query of figure 1 of Katsipoulakis, Labrinidis and Chrysanthis, *Concept-Driven Load Shedding* (2018).
"""

import random
from datetime import datetime, timedelta, timezone

import muntin
from muntin import aggregates as A
from muntin import windows as W

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def rides(count: int) -> list[tuple[datetime, str, float]]:
    """Two hours of generated rides: long routes are expensive, and the demand for routes shifts over time."""
    rng = random.Random(1)
    generated = []
    for _ in range(count):
        minute = rng.uniform(0, 120)
        zone = int(rng.gauss(10 + minute / 10, 3))
        other = rng.randrange(30)
        fare = 5.0 + 2 * abs(zone - other) + rng.randrange(4)
        generated.append((NOON + timedelta(minutes=minute), f"{zone:02}-{other:02}", fare))
    return generated


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times in UTC
    data = spark.createDataFrame(rides(20_000), "pickup timestamp, route string, fare double")

    query = muntin.over(data, W.sliding("15 minutes", "5 minutes"), time="pickup", by="route")
    query = query.agg(trips=A.count(), fare=A.mean("fare"))
    best = query.top(10, by="fare")
    best.explain()

    print("\nthe first three of ten, in three windows")
    shown = best.to_df().where("rank <= 3 AND date_format(window.end, 'HH:mm') IN ('12:30', '13:00', '13:30')")
    until = "date_format(window.end, 'HH:mm') AS until"
    shown.selectExpr(until, "rank", "route", "trips", "round(fare, 2) AS fare").show()

    print("how much the routes change from window to window")
    drift = muntin.drift(query.to_df()).orderBy("window")
    drift.selectExpr(until, "round(overlap, 2) AS overlap", "round(distance, 2) AS distance").show(5)


if __name__ == "__main__":
    main()
