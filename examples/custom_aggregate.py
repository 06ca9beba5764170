"""Two custom aggregates: one that does not depend on the order of the tuples, and one that does.

Each consists of three functions over NumPy arrays. `lift` turns tuples into states, `combine` merges the states of
neighbours (the left ones are earlier), and `lower` turns states into results.
"""

from datetime import datetime, timedelta, timezone

import numpy as np

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Array

# The mean speed over legs of equal length is the harmonic mean of their speeds.
harmonic_mean = A.custom(
    lift=lambda speed: (1 / speed, np.ones(len(speed))),
    combine=lambda left, right: (left[0] + right[0], left[1] + right[1]),
    lower=lambda state: state[1] / state[0],
    columns="speed",
    commutative=True,
)


# The longest climb: the largest rise of a value without a fall in between. It depends on the order.
def lift_climb(level: Array) -> dict[str, Array]:
    """A single tuple is a climb of 0."""
    flat = np.zeros(len(level))
    return {"first": level, "last": level, "best": flat, "head": flat, "tail": flat, "whole": flat == 0}


def combine_climbs(left: dict[str, Array], right: dict[str, Array]) -> dict[str, Array]:
    """`head` and `tail` are the climbs at the two ends. `whole` is true if all tuples are one climb.

    If the value does not fall from left to right, the tail of the left and the head of the right are one climb.
    """
    step = right["first"] - left["last"]
    goes_on = step >= 0
    joined = np.where(goes_on, left["tail"] + step + right["head"], 0.0)
    return {
        "first": left["first"],
        "last": right["last"],
        "best": np.maximum(joined, np.maximum(left["best"], right["best"])),
        "head": np.where(left["whole"] & goes_on, joined, left["head"]),
        "tail": np.where(right["whole"] & goes_on, joined, right["tail"]),
        "whole": left["whole"] & right["whole"] & goes_on,
    }


longest_climb = A.custom(
    lift=lift_climb,
    combine=combine_climbs,
    lower=lambda state: state["best"],
    columns="level",
    returns="double",
)


def main() -> None:
    spark = muntin.session()
    noon = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    legs = [
        ("north", 40.0, 100.0),
        ("north", 60.0, 130.0),
        ("north", 30.0, 180.0),
        ("north", 60.0, 120.0),
        ("south", 50.0, 210.0),
        ("south", 100.0, 200.0),
        ("south", 25.0, 205.0),
        ("south", 50.0, 290.0),
    ]
    rows = [(noon + timedelta(minutes=i % 4), *leg) for i, leg in enumerate(legs)]
    trips = spark.createDataFrame(rows, "at timestamp, route string, speed double, level double")
    (
        muntin.over(trips, W.tumbling("10 minutes"), time="at", by="route")
        .agg(speed=harmonic_mean, climb=longest_climb)
        .to_df()
        .select("route", "speed", "climb")
        .orderBy("route")
        .show()
    )


if __name__ == "__main__":
    main()
