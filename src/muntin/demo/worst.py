"""The worst 24 hours of each airport: what sliding windows find and calendar days miss."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

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
        return self.start + timedelta(days=1)

    @property
    def cancelled_share(self) -> float:
        return self.cancelled / self.flights


def worst_days(days: pa.Table, weeks: pa.Table, each: int) -> list[WorstDay]:
    """The `each` worst windows of every airport that do not overlap, worst first. Both tables are in order."""
    week_means = {(row["origin"], row["window_end"]): row["mean_delay"] for row in weeks.to_pylist()}
    ends = sorted({end for _, end in week_means})
    found: list[WorstDay] = []
    for airport in sorted(set(days["origin"].to_pylist())):
        rows = [row for row in days.to_pylist() if row["origin"] == airport and _tells(row)]
        rows.sort(key=lambda row: -row["mean_delay"])
        chosen: list[datetime] = []
        for row in rows:
            if len(chosen) == each:
                break
            start, end = row["window_start"], row["window_end"]
            week = next((week_means.get((airport, last)) for last in ends if last >= end), None)
            if week is None or any(abs(start - other) < timedelta(days=1) for other in chosen):
                continue
            chosen.append(start)
            found.append(
                WorstDay(
                    airport, start, row["flights"], row["mean_delay"], row["worst_delay"], row["cancelled"], week
                )
            )
    return found


def _tells(row: dict[str, Any]) -> bool:
    return bool(row["flights"] - row["cancelled"] >= FEWEST_DEPARTURES)
