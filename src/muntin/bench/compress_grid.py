"""The stops query at paced rates, by D: throughput, latency and memory, over several repetitions.

It runs without an engine: one task of the pane stage and one shard of the window stage in this process, on one core.
Reports are due at a steady rate by the clock, faster than they were driven. They are processed when those of a minute
of event time are due, or as soon as the ones before are done. Then a window of every vehicle closes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from time import perf_counter, sleep

import pyarrow as pa
from scipy.stats import t as student

from muntin import windows as W
from muntin.bench import linear_road as lr
from muntin.bench.core import SHARD, Core
from muntin.engine.functions import AppliedFunction
from muntin.engine.plan import Plan
from muntin.features.compression.policy import Compression
from muntin.holistic.applied import Applied

MINUTE = 60
CONFIDENCE = 0.99
"""That of the intervals, as in Gulisano (2024)."""
WARM_UP = 3
"""Minutes that do not count."""
STOPS = Applied(lr.count_stops, pa.schema([("stops", pa.int64())]), ("speed",), "arrow")


@dataclass(frozen=True)
class Paced:
    """One run at one rate."""

    throughput: float
    """Reports per second, from when the first is due until the last results."""
    latency: float
    """The mean seconds from when the last report of a window is due until its results."""
    chunk_bytes: int
    """Bytes of chunks in the state at the end."""
    memory: int
    """Bytes of chunks and panes in memory at the end."""
    compressions: int
    """Chunks compressed and decompressed by counted windows."""
    decompressions: int
    share: float
    """The share of chunks that are compressed at the end."""


@dataclass
class Cell:
    """All repetitions of one D at one rate."""

    runs: list[Paced] = field(default_factory=list)

    def mean(self, what: str) -> float:
        return fmean(self._values(what))

    def half_width(self, what: str) -> float:
        """Half of Student's confidence interval of the mean."""
        return half_width(self._values(what))

    def _values(self, what: str) -> list[float]:
        return [float(getattr(run, what)) for run in self.runs]

    def beside(self, other: Cell, what: str) -> list[float]:
        """The ratio to the run of the same repetition."""
        return [float(getattr(a, what) / getattr(b, what)) for a, b in zip(self.runs, other.runs, strict=True)]


def half_width(values: Sequence[float]) -> float:
    """Half of Student's confidence interval of the mean; 0 for a single value, of which nothing is known."""
    count = len(values)
    if count < 2:
        return 0.0
    return float(student.ppf((1 + CONFIDENCE) / 2, count - 1) * stdev(values) / count**0.5)


def plan_of(after: int | None) -> Plan:
    """The plan of the stops query, with D in microseconds."""
    return Plan.make(
        time="time",
        windows=[W.sliding(lr.SIZE, lr.ADVANCE)],
        types={column.name: column.type for column in lr.ARROW_SCHEMA},
        keys=("vehicle",),
        aggregates={},
        shards=[SHARD],
        streaming=True,
        delay=0,
        function=AppliedFunction(STOPS),
        options=[Compression(after)],
    )


def minutes_of(joins: float, minutes: int) -> tuple[list[pa.Table], list[pa.Table]]:
    """The reports of the past three hours, and of some minutes after them, minute by minute."""
    past = lr.SPAN // MINUTE
    tables = list(lr.reports(lr.Road(seconds=(past + minutes) * MINUTE, joins=(joins, joins)), stretch=MINUTE))
    return tables[:past], tables[past:]


def filled(past: Sequence[pa.Table]) -> Core:
    """A query without compression that has processed the past minutes."""
    core = Core(plan_of(None))
    for number, reports in enumerate(past, start=1):
        core.arrive(reports)
        core.close(_end(number))
    return core


def paced(full: Core, after: int | None, past: int, minutes: Sequence[pa.Table], rate: float) -> Paced:
    """Go on with this D for some minutes, at `rate` reports per second; the first minutes at full speed."""
    core = full.copy(plan_of(after))
    latencies: list[float] = []
    count, begun, due = 0, 0.0, 0.0
    before = (0, 0)
    for number, reports in enumerate(minutes):
        if number == WARM_UP:
            before = _counts(core)
            begun = due = perf_counter()
        if number >= WARM_UP:
            due += len(reports) / rate
            sleep(max(due - perf_counter(), 0.0))
        core.arrive(reports)
        core.close(_end(past + number + 1))
        if number >= WARM_UP:
            latencies.append(perf_counter() - due)
            count += len(reports)
    seconds = perf_counter() - begun
    compressions, decompressions = (now - then for now, then in zip(_counts(core), before, strict=True))
    metrics = core.metrics
    core.forget()
    return Paced(
        throughput=count / seconds,
        latency=fmean(latencies),
        chunk_bytes=metrics.get("uncompressed_bytes") + metrics.get("compressed_bytes"),
        memory=core.memory,
        compressions=compressions,
        decompressions=decompressions,
        share=metrics.get("compressed_chunks") / max(metrics.get("chunks"), 1),
    )


def _counts(core: Core) -> tuple[int, int]:
    return core.metrics.get("total_compressions"), core.metrics.get("total_decompressions")


def _end(minutes: int) -> int:
    return lr.EPOCH + minutes * MINUTE * lr.SECOND
