"""Runs of queries over Linear Road on Spark: their batches, and the memory of the workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

import muntin
from muntin.bench import linear_road as lr
from muntin.bench.processes import end_idle_workers, worker_memory
from muntin.bench.steady import FILES_PER_BATCH, Measured, measure
from muntin.spark.metrics import Progress

DELAYS: Mapping[str, str | None] = {
    "∞": None,
    "20 min": "20 minutes",
    "10 min": "10 minutes",
    "1 min": "1 minute",
    "15 s": "15 seconds",
    "0": "0 seconds",
}
"""The values of D in Gulisano (2024)."""


@dataclass(frozen=True)
class Run:
    """A query over a workload in steady state."""

    measured: Measured
    batches: tuple[Progress, ...]
    """The progress after each of these batches."""
    samples: tuple[int, ...]
    """The resident bytes of all Python workers together, once per second."""

    @property
    def memory(self) -> int:
        """Peak resident memory of all Python workers together, in bytes."""
        return max(self.samples)

    @property
    def last(self) -> Progress:
        return self.batches[-1]

    @property
    def chunk_bytes(self) -> int:
        return self.last.uncompressed_bytes + self.last.compressed_bytes

    @property
    def latency(self) -> float:
        return median(self.measured.seconds)

    def rate_beside(self, *others: Run) -> float:
        """The rate relative to the mean of `others`, by the fastest and so least disturbed batch of each."""
        return self.measured.fastest / fmean(other.measured.fastest for other in others)


def run_of(query: muntin.Query, scratch: Path, warm_up: int) -> Run:
    """Run a query to the end of its input."""
    end_idle_workers()  # so that memory of earlier runs does not count
    samples = []

    def look(batch: str) -> None:
        if int(batch.split()[-1]) >= warm_up:
            samples.append(sum(worker_memory()))

    measured = measure(query.to_df(), scratch, warm_up, look)
    samples.append(sum(worker_memory()))
    return Run(measured, _batches(measured, warm_up), tuple(samples))


def steady(joins: float, seconds: int) -> lr.Road:
    return lr.Road(seconds=seconds, joins=(joins, joins))


def write_road(
    folder: Path, road: lr.Road, lengths: Sequence[int], select: Callable[[pa.Table], pa.Table] = lambda table: table
) -> None:
    """Write a few files per batch. `lengths` are the seconds of the batches."""
    folder.mkdir(parents=True)
    tables = lr.reports(road, stretch=60)
    for batch, length in enumerate(lengths):
        table = select(pa.concat_tables([next(tables) for _ in range(length // 60)]))
        share = -(-len(table) // FILES_PER_BATCH)
        for part in range(FILES_PER_BATCH):
            path = folder / f"{batch:04d}-{part}.parquet"
            pq.write_table(table.slice(part * share, share), path, compression="lz4")
            os.utime(path, (1_000_000 + batch, 1_000_000 + batch))  # Spark takes the oldest files first


def _batches(measured: Measured, warm_up: int) -> tuple[Progress, ...]:
    reports = [report for report in measured.query.recentProgress if report["numInputRows"] > 0][warm_up:]
    return tuple(muntin.progress(SimpleNamespace(recentProgress=[report])) for report in reports)
