"""The windows that closed last, with their intervals, from the written results."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muntin.spark.plot import flat_rows

LAST = 300
"""The windows that are read."""
EVERY = 3.0
"""Seconds between two reads, however many look at the page."""


class Closed:
    """Reads results when somebody looks at them, and not too often."""

    def __init__(self, results: Callable[[], Any], value: str | None) -> None:
        self._results = results
        self._value = value
        self._lock = threading.Lock()
        self._read_at = -math.inf
        self._last: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        with self._lock:
            if time.monotonic() - self._read_at >= EVERY:
                self._last = self._now()
                self._read_at = time.monotonic()
            return self._last

    def _now(self) -> dict[str, Any]:
        """The last windows, the oldest first; or why they cannot be read, as before the first is written."""
        try:
            results = self._results()
            if isinstance(results, DataFrame) and "window" in results.columns:
                results = results.orderBy(F.col("window.end").desc()).limit(LAST)
            rows, value, keys = flat_rows(results, self._value, None)
            rows = rows.sort_values("end", kind="stable").tail(LAST)
            groups = [*(["window_name"] if "window_name" in rows else []), *keys]
            return {
                "value": value,
                "rows": [
                    {
                        "end": row["end"].isoformat(sep=" "),
                        "key": ", ".join(str(row[group]) for group in groups),
                        "value": _number(row[value]),
                        "low": _number(row.get("low")),
                        "high": _number(row.get("high")),
                    }
                    for row in rows.to_dict("records")
                ],
            }
        except Exception as error:
            return {"problem": f"{type(error).__name__}: {error}".partition("\n")[0][:300], "rows": []}


def _number(value: Any) -> float | None:
    """A number for JSON, which has no infinities."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
