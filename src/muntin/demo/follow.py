"""Runs a streaming query to its end and reports its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

import muntin

_LOOK_EVERY = 0.5


@dataclass(frozen=True)
class Standing:
    """The progress of a query: input, output, and state."""

    running: bool
    batches: int
    rows: int
    closed: int
    """Results so far: one per closed window and airport."""
    state_bytes: int
    late: int | None = None
    """Rows that were too late for all windows, if the query reports them."""


@dataclass(frozen=True)
class Run:
    """A finished query and its duration in seconds."""

    end: Standing
    total: float
    """Wall-clock time from start to end."""
    steady: float
    """The sum over all batches after the first."""


Look = Callable[[StreamingQuery], Standing]


def run_to_end(results: DataFrame, directory: Path, look: Look, show: Callable[[Standing], None]) -> Run:
    """Process the available input of the stream, and write the results as Parquet to `directory`."""
    began = time.perf_counter()
    query = (
        results.writeStream.outputMode("append")
        .format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "results"))
    )
    try:
        while not query.awaitTermination(_LOOK_EVERY):  # type: ignore[arg-type]  # whole seconds only in the stubs
            show(look(query))
    finally:
        query.stop()
    total = time.perf_counter() - began
    end = look(query)
    show(end)
    _, *others = (report["durationMs"]["triggerExecution"] / 1000 for report in _batches(query))
    return Run(end, total, sum(others))


def look_at_muntin(query: StreamingQuery) -> Standing:
    reports = _batches(query)
    progress = muntin.progress(query)
    return Standing(
        running=query.isActive,
        batches=len(reports),
        rows=progress.rows,
        closed=progress.results,
        late=progress.late_rows,
        state_bytes=progress.state_bytes,
    )


def look_at_spark(query: StreamingQuery) -> Standing:
    reports = _batches(query)
    operators = [operator for report in reports for operator in report["stateOperators"]]
    return Standing(
        running=query.isActive,
        batches=len(reports),
        rows=sum(int(report["numInputRows"]) for report in reports),
        closed=sum(int(operator["numRowsRemoved"]) for operator in operators),
        # Spark keeps several versions of the state in memory; this is the current one.
        state_bytes=int(operators[-1]["customMetrics"]["stateOnCurrentVersionSizeBytes"]) if operators else 0,
    )


def _batches(query: StreamingQuery) -> list[Any]:
    """The reports of batches that ran. Spark also reports triggers without input, which have no duration."""
    return [report for report in query.recentProgress if "addBatch" in report["durationMs"]]
