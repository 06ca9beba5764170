"""The worst 24 hours of each airport, which sliding windows find and calendar days miss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CITIES = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
DAY = timedelta(days=1)
FEWEST_DEPARTURES = 50
"""A mean over fewer departures means little: on some days nearly all flights were cancelled."""


@dataclass(frozen=True)
class WorstDay:
    airport: str
    start: datetime
    flights: int
    mean_delay: float
    worst_delay: int
    cancelled: int
    week_mean: float
    """The mean delay of the seven days that end with this day or shortly after."""

    @property
    def end(self) -> datetime:
        return self.start + DAY

    @property
    def cancelled_share(self) -> float:
        return self.cancelled / self.flights


def worst_days(days: pa.Table, weeks: pa.Table, each: int) -> list[WorstDay]:
    """The `each` worst windows per airport without overlaps, worst first. Both tables are sorted."""
    days_with_departures = days.filter(
        pc.greater_equal(pc.subtract(days["flights"], days["cancelled"]), FEWEST_DEPARTURES)
    )
    week_means = {(row["origin"], row["window_end"]): row["mean_delay"] for row in weeks.to_pylist()}
    ends = sorted({end for _, end in week_means})
    worst: list[WorstDay] = []
    for airport in sorted(set(days_with_departures["origin"].to_pylist())):
        starts: list[datetime] = []
        for row in _by_delay(days_with_departures.filter(pc.equal(days_with_departures["origin"], airport))):
            if len(starts) == each:
                break
            start = row["window_start"]
            week = next((week_means.get((airport, end)) for end in ends if end >= row["window_end"]), None)
            if week is None or any(abs(start - other) < DAY for other in starts):
                continue
            starts.append(start)
            worst.append(
                WorstDay(airport, start, row["flights"], row["mean_delay"], row["worst_delay"], row["cancelled"], week)
            )
    return worst


def _by_delay(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows, worst first. They are converted in batches, since only the first few are read."""
    for batch in rows.sort_by([("mean_delay", "descending")]).to_batches(max_chunksize=1_000):
        yield from batch.to_pylist()
