"""The figures of a stream: what the page draws, batch by batch, from Spark's progress reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from muntin.spark.metrics import reports_of, time_of

BATCHES = 100
"""The batches that are drawn, at most; Spark keeps as many by default."""
SHARE = 1e6
"""Shedding rates are reported in millionths."""
PER_BATCH = ("rows", "results", "late_rows", "invalid_rows", "shed_rows")
SIZES = ("panes", "hot_bytes", "state_bytes", "uncompressed_bytes", "compressed_bytes")


class Source(Protocol):
    """Where a page has its figures from."""

    def figures(self) -> dict[str, Any]:
        """The state of the stream and its last batches, the oldest first, as JSON."""

    def metrics(self) -> Mapping[str, Any]:
        """Every known metric after the last batch, with `total_` before the names of totals."""

    def stop(self) -> None:
        """The page has ended."""


class OfQuery:
    """A stream of this process."""

    def __init__(self, query: Any, name: str | None) -> None:
        self._query, self._name = query, name

    def figures(self) -> dict[str, Any]:
        return figures(self._query, self._name)

    def metrics(self) -> Mapping[str, Any]:
        return next((values for _, values in reports_of(self._query, self._name)), {})

    def stop(self) -> None: ...


def figures(query: Any, name: str | None = None) -> dict[str, Any]:
    """The state of the stream and its last batches, the oldest first, as JSON."""
    reports = reports_of(query, name)[:BATCHES]
    return {
        "name": str(getattr(query, "name", None) or "") or str(getattr(query, "id", "")),
        "running": bool(getattr(query, "isActive", False)),
        "error": _error(query),
        "batches": [_batch(report, values) for report, values in reversed(reports)],
        "totals": _totals(reports[0][1]) if reports else {},
    }


def _batch(report: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    parts = {str(part): (milliseconds or 0) / 1000 for part, milliseconds in report["durationMs"].items()}
    seconds = parts.pop("triggerExecution", 0.0)
    rows = max(int(report.numInputRows), _number(values, "rows"))
    watermark, clock = time_of(report.eventTime.get("watermark")), time_of(report.timestamp)
    is_set = watermark is not None and watermark.year > 1970
    return {
        "batch": int(report["batchId"]),
        "time": report.timestamp,
        "watermark": report.eventTime.get("watermark") if is_set else None,
        "lag_seconds": (clock - watermark).total_seconds() if is_set and clock and watermark else None,
        "input_rows_per_s": _rate(report),
        "processed_rows_per_s": rows / seconds if seconds else 0.0,
        "seconds": seconds,
        "parts": parts,
        "shed_rate": _number(values, "shed_rate") / SHARE,
        "compressed_after_seconds": _number(values, "compressed_after") / 1e6,
        **{metric: _number(values, metric) for metric in (*PER_BATCH, *SIZES)},
    }


def _totals(values: Mapping[str, Any]) -> dict[str, int]:
    return {metric: _number(values, f"total_{metric}") for metric in PER_BATCH}


def _number(values: Mapping[str, Any], name: str) -> int:
    return int(values.get(name) or 0)


def _rate(report: Any) -> float:
    """Rows that arrived per second, as Spark measures it: not a number after a start."""
    rate = float(getattr(report, "inputRowsPerSecond", 0.0) or 0.0)
    return rate if 0 <= rate < float("inf") else 0.0


def _error(query: Any) -> str | None:
    """Why the stream has failed; None if it has not."""
    failure = query.exception() if callable(getattr(query, "exception", None)) else None
    return None if failure is None else str(failure).partition("\n")[0][:500]
