"""Runs of the parallel benchmark: a streaming query with some workers, and its batches in steady state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.parallel_chunks import with_static_chunks
from muntin.bench.parallel_fit import SCHEMA, Fit, last
from muntin.bench.running import Running
from muntin.bench.steady import stream
from muntin.features.workers.policy import Wish
from muntin.spark.session import PARTITIONS

DELAY = "10 milliseconds"
CALLS = "calls"
"""The name of the observation of the function's calls."""


@dataclass(frozen=True)
class Setting:
    """A query over quotes."""

    window: W.Window
    model: Wish | None = "agnostic"
    """None: without `.parallel(...)`."""
    workers: int = 2
    batch: int | None = None
    """Consecutive windows per turn of an active worker."""
    compute: Fit | Literal["last", "mean"] = field(default_factory=Fit)
    """A fit; "last", a function that takes almost no time; or "mean", which partial results answer."""
    by_key: bool = False
    chunk: int | None = None
    """The length of chunks in microseconds; None leaves it to Muntin."""

    @property
    def computed(self) -> str:
        return self.compute if isinstance(self.compute, str) else self.compute.title

    def on(self, frame: DataFrame) -> DataFrame:
        query = muntin.over(frame, self.window, time="ts", watermark=DELAY, by=("key",) if self.by_key else ())
        if self.compute == "mean":
            query = query.agg(price=A.mean("value"))
        elif self.compute == "last":
            query = query.apply(last, "price double", columns=["value"])
        else:
            query = query.apply(self.compute, SCHEMA, columns=["ts", "value"])
        if self.model is not None:
            query = query.parallel(self.model, self.workers, batch=self.batch, skewed=self.by_key)
        if self.chunk is not None:
            query = with_static_chunks(query, self.chunk)
        results = query.to_df()
        if not isinstance(self.compute, Fit):
            return results
        calls = F.count(F.lit(1)).alias("count"), F.sum("nanoseconds").alias("sum"), F.max("nanoseconds").alias("max")
        return results.observe(CALLS, *calls)


@dataclass(frozen=True)
class Batch:
    """A batch in steady state."""

    seconds: float
    rows: int
    results: int
    calls: float
    """Seconds of all calls of the function, over all workers."""
    longest: float
    """Seconds of the longest call."""
    emitter: float
    """Seconds from closed windows to their results or jobs, over all shards."""
    arrived_bytes: int
    jobs: int
    job_bytes: int

    @property
    def results_per_s(self) -> float:
        return self.results / self.seconds


@dataclass(frozen=True)
class Run:
    """Steady batches of one setting, of one run or of several."""

    batches: tuple[Batch, ...] = ()
    computed: str = ""
    """The function of every window. Parts use fits of different cost, so their latencies differ."""

    def __add__(self, other: Run) -> Run:
        return replace(other, batches=self.batches + other.batches)

    @property
    def fastest(self) -> float:
        """Results per second of the fastest and so least disturbed batch."""
        return max(batch.results_per_s for batch in self.batches)

    @property
    def usual(self) -> float:
        """Results per second of the median batch."""
        return median(batch.results_per_s for batch in self.batches)

    @property
    def overall(self) -> float:
        """Results per second over all batches, for batches that differ in their work."""
        return sum(batch.results for batch in self.batches) / self.seconds

    @property
    def seconds(self) -> float:
        return sum(batch.seconds for batch in self.batches)

    @property
    def latency(self) -> float:
        """T_calc: the mean seconds of a call."""
        return sum(batch.calls for batch in self.batches) / sum(batch.results for batch in self.batches)

    @property
    def emitter(self) -> float:
        """Seconds per window that the emitter spends on jobs."""
        return sum(batch.emitter for batch in self.batches) / sum(batch.results for batch in self.batches)

    @property
    def bytes_per_window(self) -> float:
        """Shuffled bytes per window: packed panes, tuples and jobs."""
        sent = sum(batch.arrived_bytes + batch.job_bytes for batch in self.batches)
        return sent / sum(batch.results for batch in self.batches)

    @property
    def told(self) -> str:
        """The batches in words, for notes."""
        first, count = self.batches[0], len(self.batches)
        return (
            f"{count} batch{'es' * (count > 1)} of about {first.rows:,} quotes and {first.results:,} windows, "
            f"{fmean(batch.seconds for batch in self.batches):.2f} s each; {self.computed}"
        )


def measure(running: Running, folder: Path, setting: Setting, warm_up: int) -> Run:
    """The batches after the first `warm_up` ones."""
    spark = running.spark
    before = spark.conf.get(PARTITIONS) or ""
    # An active worker is a stateful task and needs its own partition.
    spark.conf.set(PARTITIONS, str(max(int(before), setting.workers)))
    try:
        measured = running.measure(setting.on(stream(spark, folder)), warm_up)
    finally:
        spark.conf.set(PARTITIONS, before)
    return Run(batches_of(measured.query.recentProgress, warm_up), setting.computed)


def batches_of(reports: Sequence[Any], warm_up: int) -> tuple[Batch, ...]:
    """The batches with rows, from Spark's reports."""
    batches = []
    for report in [report for report in reports if report["numInputRows"] > 0][warm_up:]:
        progress = muntin.progress(SimpleNamespace(recentProgress=[report]))
        calls = report["observedMetrics"].get(CALLS)
        batches.append(
            Batch(
                seconds=progress.batch_seconds,
                rows=progress.batch_rows,
                results=progress.batch_results,
                calls=0.0 if calls is None else (calls["sum"] or 0) / 1e9,
                longest=0.0 if calls is None else (calls["max"] or 0) / 1e9,
                emitter=progress.answer_nanoseconds / 1e9,
                arrived_bytes=progress.arrived_bytes,
                jobs=progress.jobs,
                job_bytes=progress.job_bytes,
            )
        )
    return tuple(batches)
