"""Run a streaming query to its end, and tell how it stands on the way."""

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
    """How a query stands: what has gone in, what has come out, what it keeps."""

    running: bool
    batches: int
    rows: int
    closed: int
    """Results so far: windows of airports that have closed."""
    state_bytes: int
    late: int | None = None
    """Rows that counted nowhere, if the query can tell."""


@dataclass(frozen=True)
class Run:
    """What a finished query did, and how long it took, in seconds."""

    end: Standing
    total: float
    """From start to end, as a person with a watch would measure it."""
    steady: float
    """All batches after the first, added up."""


Look = Callable[[StreamingQuery], Standing]


def run_to_end(results: DataFrame, directory: Path, look: Look, show: Callable[[Standing], None]) -> Run:
    """Write the results of everything that the stream has now as Parquet in `directory`."""
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
    _, *rest = (report["durationMs"]["triggerExecution"] / 1000 for report in _batches(query))
    return Run(end, total, sum(rest))


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
        # Of the several versions in memory in memory, only the one that counts.
        state_bytes=int(operators[-1]["customMetrics"]["stateOnCurrentVersionSizeBytes"]) if operators else 0,
    )


def _batches(query: StreamingQuery) -> list[Any]:
    """The reports of batches that ran; a report without a duration only says that there was nothing to do."""
    return [report for report in query.recentProgress if "addBatch" in report["durationMs"]]
