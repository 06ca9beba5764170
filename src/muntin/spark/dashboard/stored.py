"""The figures of a checkpoint: what a page can show of a stream of another process, or of one that has ended."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from muntin.engine.inspected import stored_metrics
from muntin.spark.checkpoint import StoredState
from muntin.spark.checkpoint_files import BatchFiles, StoredBatch
from muntin.spark.dashboard.figures import BATCHES, PER_BATCH, SIZES
from muntin.spark.metrics import all_metrics

EARLIER = 30
"""Of so many of the last batches, the state is read; that takes about a second for each."""
WATCHED = 30.0
"""Seconds after the last request in which states are read."""
EVERY = 0.5
"""Seconds between two looks for new batches."""


class States:
    """The metrics in the state after batches, read in a thread, the latest batch first."""

    def __init__(self, spark: SparkSession, path: str, operator: int) -> None:
        self._spark, self._path, self._operator = spark, path, operator
        self._lock = threading.Lock()
        self._wanted: list[tuple[int, float]] = []
        self._found: dict[tuple[int, float], Mapping[str, int] | None] = {}
        self._asked = -math.inf
        self._ends = threading.Event()
        self.problem: str | None = None
        """Why the latest state could not be read."""
        self._thread = threading.Thread(target=self._run, name="muntin-dashboard-states", daemon=True)
        self._thread.start()

    def of(self, batches: Sequence[StoredBatch]) -> dict[int, Mapping[str, int]]:
        """What is known by now of these batches. What is not will be read."""
        keys = [(batch.number, batch.committed) for batch in batches if batch.committed is not None]
        with self._lock:
            self._wanted = keys[-EARLIER:]
            self._asked = time.monotonic()
            self._found = {key: self._found[key] for key in keys if key in self._found}
            return {number: values for (number, _), values in self._found.items() if values is not None}

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(EVERY):
            while (key := self._next()) is not None and not self._ends.is_set():
                found, problem = self._read(key[0])
                with self._lock:
                    self._found[key] = found
                    if key == self._wanted[-1]:
                        self.problem = problem

    def _next(self) -> tuple[int, float] | None:
        with self._lock:
            watched = time.monotonic() - self._asked < WATCHED
            return next((key for key in reversed(self._wanted) if key not in self._found), None) if watched else None

    def _read(self, number: int) -> tuple[Mapping[str, int] | None, str | None]:
        try:
            headers = StoredState(self._spark, self._path, self._operator, number).headers().collect()
            shards = [stored_metrics(bytes(row["value"])) for row in headers]
        except Exception as error:  # Spark may have removed the state meanwhile
            return None, f"{type(error).__name__}: {error}".partition("\n")[0][:300]
        return _folded(shards), None


def _folded(shards: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    """The metrics of all shards together."""
    largest = {metric.name for metric in all_metrics() if metric.fold == "max"}
    folded: dict[str, int] = {}
    for shard in shards:
        for name, value in shard.items():
            folded[name] = max(folded.get(name, 0), value) if name in largest else folded.get(name, 0) + value
    return folded


class OfCheckpoint:
    """Where a page has its figures from: the files of a checkpoint, and the state in it."""

    def __init__(self, spark: SparkSession, path: str, folder: Path, operator: int) -> None:
        self._name = path
        self._files = BatchFiles(folder)
        self._states = States(spark, path, operator)

    def stop(self) -> None:
        self._states.stop()

    def figures(self) -> dict[str, Any]:
        batches = self._files.last(BATCHES)
        known = self._states.of(batches)
        ended = [batch for batch in batches if batch.committed is not None]
        running = batches[-1] if batches and batches[-1].committed is None else None
        latest = max(known, default=None)
        totals = {} if latest is None else known[latest]
        return {
            "name": self._name,
            "running": None,  # nobody knows
            "checkpoint": {
                "committed": ended[-1].committed if ended else None,
                "begun": None if running is None else {"batch": running.number, "started": running.started},
            },
            "error": self._states.problem and f"The state cannot be read: {self._states.problem}",
            "batches": [
                _figures(batch, previous, known) for batch, previous in zip(ended, [None, *ended[:-1]], strict=True)
            ],
            "totals": {metric: totals[f"total_{metric}"] for metric in PER_BATCH if f"total_{metric}" in totals},
        }

    def metrics(self) -> Mapping[str, int]:
        """The metrics after the last batch whose state has been read."""
        known = self._states.of(self._files.last(BATCHES))
        return known[max(known)] if known else {}


def _figures(
    batch: StoredBatch, previous: StoredBatch | None, known: Mapping[int, Mapping[str, int]]
) -> dict[str, Any]:
    """A batch as the page draws it. What is unknown is None."""
    values = known.get(batch.number)
    counts = dict.fromkeys(PER_BATCH, None) if values is None else _counts(values, batch.number, known)
    seconds = max(0.0, (batch.committed or batch.started) - batch.started)
    planning = min(seconds, max(0.0, batch.planned - batch.started))
    rows = counts["rows"]
    pause = None if previous is None else batch.started - previous.started
    shed = counts["shed_rows"]
    return {
        "batch": batch.number,
        "time": _written(batch.started),
        "watermark": _written(batch.watermark),
        "lag_seconds": None if batch.watermark is None else batch.started - batch.watermark,
        "input_rows_per_s": rows / pause if rows is not None and pause else None,
        "processed_rows_per_s": rows / seconds if rows is not None and seconds else None,
        "seconds": seconds,
        "parts": {"until the offsets are written": planning, "until the commit": seconds - planning},
        "shed_rate": shed / rows if shed is not None and rows else None,
        "compressed_after_seconds": None if values is None else values["compressed_after"] / 1e6,
        **counts,
        **{name: None if values is None else values.get(name) for name in SIZES},
    }


def _counts(values: Mapping[str, int], number: int, known: Mapping[int, Mapping[str, int]]) -> dict[str, int | None]:
    """The counts of a batch: totals after it less those after the batch before. A count that a query has not is 0."""
    before = known.get(number - 1, {} if number == 0 else None)
    if before is None:
        return dict.fromkeys(PER_BATCH, None)
    return {name: values.get(f"total_{name}", 0) - before.get(f"total_{name}", 0) for name in PER_BATCH}


def _written(seconds: float | None) -> str | None:
    """A time as Spark writes it in progress reports; None if Python's calendar does not have it."""
    try:
        return (
            None
            if seconds is None
            else f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
        )
    except (ValueError, OverflowError, OSError):
        return None
