"""The worst 24 hours of each airport: what sliding windows find and calendar days miss."""

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
"""A mean over fewer departures says little: on some days nearly all flights were cancelled."""


@dataclass(frozen=True)
class WorstDay:
    airport: str
    start: datetime
    flights: int
    mean_delay: float
    worst_delay: int
    cancelled: int
    week_mean: float
    """The mean delay of the seven days that end with this day, or just after."""

    @property
    def end(self) -> datetime:
        return self.start + DAY

    @property
    def cancelled_share(self) -> float:
        return self.cancelled / self.flights


def worst_days(days: pa.Table, weeks: pa.Table, each: int) -> list[WorstDay]:
    """The `each` worst windows of every airport that do not overlap, worst first. Both tables are in order."""
    telling = days.filter(pc.greater_equal(pc.subtract(days["flights"], days["cancelled"]), FEWEST_DEPARTURES))
    week_means = {(row["origin"], row["window_end"]): row["mean_delay"] for row in weeks.to_pylist()}
    ends = sorted({end for _, end in week_means})
    found: list[WorstDay] = []
    for airport in sorted(set(telling["origin"].to_pylist())):
        chosen: list[datetime] = []
        for row in _by_delay(telling.filter(pc.equal(telling["origin"], airport))):
            if len(chosen) == each:
                break
            start = row["window_start"]
            week = next((week_means.get((airport, end)) for end in ends if end >= row["window_end"]), None)
            if week is None or any(abs(start - other) < DAY for other in chosen):
                continue
            chosen.append(start)
            found.append(
                WorstDay(airport, start, row["flights"], row["mean_delay"], row["worst_delay"], row["cancelled"], week)
            )
    return found


def _by_delay(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Row by row, the worst first; a table of a year is long, and only its beginning is looked at."""
    for batch in rows.sort_by([("mean_delay", "descending")]).to_batches(max_chunksize=1_000):
        yield from batch.to_pylist()
