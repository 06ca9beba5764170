"""Runs of the parallel benchmark: a streaming query with so many workers, and what its steady batches took."""

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
"""What is observed of the function's results."""


@dataclass(frozen=True)
class Setting:
    """A query over quotes."""

    window: W.Window
    model: Wish | None = "agnostic"
    """None: without `.parallel(...)`."""
    workers: int = 2
    batch: int | None = None
    """Consecutive windows that an active worker gets."""
    compute: Fit | Literal["last", "mean"] = field(default_factory=Fit)
    """The fit; "last", a function that takes no time; or "mean", which partial results answer."""
    by_key: bool = False
    chunk: int | None = None
    """The length of chunks in microseconds, where it is not for Muntin to say."""

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
    """What one batch in steady state did."""

    seconds: float
    rows: int
    results: int
    calls: float
    """Seconds that all calls of the function took, in all workers together."""
    longest: float
    """Seconds of the longest call."""
    emitter: float
    """Seconds from closed windows to their results, or to jobs, in all shards together."""
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
    """What of every window: the parts have fits of different cost, so that latencies differ between them."""

    def __add__(self, other: Run) -> Run:
        return replace(other, batches=self.batches + other.batches)

    @property
    def fastest(self) -> float:
        """Results per second in the fastest batch: what the machine does when left alone."""
        return max(batch.results_per_s for batch in self.batches)

    @property
    def usual(self) -> float:
        """Results per second in the median batch."""
        return median(batch.results_per_s for batch in self.batches)

    @property
    def overall(self) -> float:
        """Results per second over all batches, where no two have the same work."""
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
        """Seconds per window that the emitter takes for jobs."""
        return sum(batch.emitter for batch in self.batches) / sum(batch.results for batch in self.batches)

    @property
    def bytes_per_window(self) -> float:
        """What is shuffled: packed panes and tuples, and jobs."""
        sent = sum(batch.arrived_bytes + batch.job_bytes for batch in self.batches)
        return sent / sum(batch.results for batch in self.batches)

    @property
    def told(self) -> str:
        """For a note."""
        each, count = self.batches[0], len(self.batches)
        return (
            f"{count} batch{'es' * (count > 1)} of about {each.rows:,} quotes and {each.results:,} windows, "
            f"{fmean(batch.seconds for batch in self.batches):.2f} s each; {self.computed}"
        )


def measure(running: Running, folder: Path, setting: Setting, warm_up: int) -> Run:
    """The batches after the first `warm_up` ones."""
    spark = running.spark
    before = spark.conf.get(PARTITIONS) or ""
    # An active worker is a stateful task, and needs a partition of its own.
    spark.conf.set(PARTITIONS, str(max(int(before), setting.workers)))
    try:
        measured = running.measure(setting.on(stream(spark, folder)), warm_up)
    finally:
        spark.conf.set(PARTITIONS, before)
    return Run(batches_of(measured.query.recentProgress, warm_up), setting.computed)


def batches_of(reports: Sequence[Any], warm_up: int) -> tuple[Batch, ...]:
    """From what Spark says of batches with rows."""
    found = []
    for report in [each for each in reports if each["numInputRows"] > 0][warm_up:]:
        progress = muntin.progress(SimpleNamespace(recentProgress=[report]))
        calls = report["observedMetrics"].get(CALLS)
        found.append(
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
    return tuple(found)
