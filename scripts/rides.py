"""What the examples of the reference use: seven rides, and functions that print what a query finds in them."""

from __future__ import annotations

from typing import Any

import muntin
from muntin import aggregates as A
from muntin.aggregates import Aggregate
from muntin.testing import Stream
from muntin.testing.rows import Rows
from muntin.testing.schemas import schema_of
from muntin.windows import Window

SCHEMA = "at timestamp, route string, fare double, km long"
RIDES = [
    ("2024-05-01 12:02", "A", 5.0, 100),
    ("2024-05-01 12:07", "A", 8.0, 104),
    ("2024-05-01 12:11", "B", 6.5, 107),
    ("2024-05-01 12:13", "A", 8.0, 112),
    ("2024-05-01 12:26", "B", None, 118),
    ("2024-05-01 12:44", "A", 9.5, 127),
    ("2024-05-01 12:58", "B", 6.5, 131),
]


def of_hour(aggregate: Aggregate) -> Any:
    """The aggregate of all rides: one window of an hour has them."""
    stream = Stream(lambda rides: muntin.over(rides, HOUR, time="at", watermark="0 seconds").agg(x=aggregate), SCHEMA)
    stream.batch(RIDES)
    (row,) = stream.watermark("2024-05-01 13:00").results
    return row["x"]


def windows_of(*windows: Window, until: str = "2024-05-01 13:00") -> None:
    """Print start, end and number of rides of each window that has closed by then."""
    show(lambda rides: muntin.over(rides, *windows, time="at", watermark="0 seconds").agg(rides=A.count()), until=until)


def show(query: Any, until: str = "2024-05-01 13:00") -> None:
    """Print the results of a function that gets the rides and returns a query: windows, and all other columns."""
    stream = Stream(query, SCHEMA)
    stream.batch(RIDES)
    stream.watermark(until)
    for row in stream.results:
        window, *values = (value for name, value in row.items() if name not in ("window_id", "window_time"))
        print(f"{window['start']:%H:%M} to {window['end']:%H:%M}:", *values)


def fares(rides: Any) -> muntin.Query:
    """Rides and fares of each route and hour."""
    return muntin.over(rides, HOUR, time="at", watermark="0 seconds", by="route").agg(
        rides=A.count(), paid=A.sum("fare")
    )


def medians(rides: Any) -> muntin.Query:
    """The median fare of each hour, for which the rides are kept."""
    return muntin.over(rides, HOUR, time="at", watermark="0 seconds").agg(middle=A.median("fare"))


def pairs(left: Any, right: Any) -> muntin.Join:
    """Two rides of the same route in the same hour."""
    return muntin.join(left, right, HOUR, on="route", time="at", watermark="0 seconds")


HOUR = muntin.windows.tumbling("1 hour")
rides = Rows({field.name: field.type for field in schema_of(SCHEMA)})
"""A stream that has columns and no rows: enough to build a query."""
