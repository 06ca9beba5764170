"""Metrics: one row per shard and batch, folded into the query's progress by `observe()`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.durations import describe
from muntin.engine.metrics import ShardMetrics
from muntin.engine.store import Totals
from muntin.errors import MuntinError, MuntinWarning
from muntin.sizes import describe_size

OBSERVATION = "muntin"
RECENT = 10
"""So many batches with rows are looked at for late ones."""
NAMES = tuple(each.name for each in fields(ShardMetrics))
_COUNTERS = tuple(each.name for each in fields(Totals))
_LARGEST = {"compressed_after", "shed_rate"}
"""Of which the shards' largest counts, and not their sum."""
_PROGRESS_NAMES = {name: f"batch_{name}" for name in _COUNTERS} | {f"total_{name}": name for name in _COUNTERS}


@dataclass(frozen=True, repr=False)
class Progress:
    """What a streaming query has done since it first started, and how it stands after its last batch."""

    batch_id: int = -1
    rows: int = 0
    """Rows with an event time, late ones included."""
    late_rows: int = 0
    """Rows that came too late for all of their windows."""
    bad_rows: int = 0
    """Rows without an event time, those further ahead of the clock than `max_ahead=` allows, and those that a delta
    window set aside because its column had decreased."""
    outside_rows: int = 0
    """Rows between windows, where the slide is larger than the size."""
    ahead_rows: int = 0
    """The bad rows that are too far ahead of the clock."""
    results: int = 0
    """Windows of keys that closed, or the rows that a function made of them."""
    compressions: int = 0
    """Chunks that were compressed."""
    decompressions: int = 0
    """Chunks that were decompressed, for windows that needed them."""
    exact_windows: int = 0
    """Windows of keys that had to be answered from all their tuples, in a query that allows samples."""
    approximate_windows: int = 0
    """Those that were answered from a sample, or from what was not shed."""
    shed_rows: int = 0
    """Rows that were shed; they are among `rows`."""
    batch_rows: int = 0
    """The same for the last batch alone, from here on."""
    batch_late_rows: int = 0
    batch_bad_rows: int = 0
    batch_outside_rows: int = 0
    batch_ahead_rows: int = 0
    batch_results: int = 0
    batch_compressions: int = 0
    batch_decompressions: int = 0
    batch_exact_windows: int = 0
    batch_approximate_windows: int = 0
    batch_shed_rows: int = 0
    batch_seconds: float = 0.0
    """How long the batch took: the latency of its results, once the watermark has passed their windows."""
    rows_per_s: float = 0.0
    """Throughput: the input rows of the batch by its time."""
    answer_nanoseconds: int = 0
    """How long the shards together took in the last batch from closed windows to their results."""
    answer_bytes: int = 0
    """What the tuples, or the samples, took that the windows of the last batch were answered from."""
    panes: int = 0
    """Panes of keys that open windows still need."""
    tuples: int = 0
    """Tuples that wait to be settled, for windows that need them in their final order."""
    hot_bytes: int = 0
    state_bytes: int = 0
    segments: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    jobs: int = 0
    """Window jobs that the last batch handed out to agnostic workers."""
    arrived_bytes: int = 0
    """What the packed panes took that the shards got in the last batch."""
    job_bytes: int = 0
    """What its window jobs took."""
    sample_tuples: int = 0
    """Tuples in the samples of open windows."""
    sample_bytes: int = 0
    shed_rate: int = 0
    """The share of rows that the last batch was to shed, in millionths."""
    error_millionths: int = 0
    """The estimated errors of the windows of the last batch of which rows were shed, added up, where they are known."""
    windows_with_error: int = 0
    """Of how many windows that is."""
    chunks: int = 0
    """Chunks of tuples that open windows still need."""
    compressed_chunks: int = 0
    chunk_tuples: int = 0
    uncompressed_bytes: int = 0
    """The chunks in the state that are not compressed."""
    compressed_bytes: int = 0
    """The chunks in the state that are."""
    resident_bytes: int = 0
    """The chunks in the workers' memory."""
    left_chunks: int = 0
    """Those that are only in the state."""
    compressed_after: int = 0
    """D as it stands: the age in event time of the youngest compressed chunk, in microseconds."""
    drift_common: int = 0
    """In a query with `.top()`, over all pairs of neighbouring windows that closed with the last batch in which there
    were any: groups that are in both."""
    drift_union: int = 0
    """Groups that are in either."""
    drift_apart: int = 0
    """By how many rows groups differ."""
    drift_total: int = 0
    """How many rows they have."""
    warning: str | None = None
    """What is likely wrong with the query, and what to do: most rows of the recent batches came too late."""

    def __repr__(self) -> str:
        """The figures that matter, on one line; all others are attributes."""
        if self.batch_id < 0:
            return "Progress(no batch yet)"
        parts = [
            f"batch {self.batch_id:,}: {self.batch_rows:,} rows in {self.batch_seconds:.1f} s, "
            f"{self.batch_results:,} results",
            f"in all: {self.rows:,} rows"
            + "".join(f", {getattr(self, name):,} {what}" for name, what in self._noted())
            + f", {self.results:,} results",
            f"state: {describe_size(self.state_bytes)}",
            *([] if self.warning is None else [f"warning: {self.warning}"]),
        ]
        return f"Progress({'; '.join(parts)})"

    def _noted(self) -> Iterator[tuple[str, str]]:
        """Counters that are told if there is something in them."""
        for name, what in (
            ("late_rows", "late"),
            ("bad_rows", "bad"),
            ("outside_rows", "outside"),
            ("shed_rows", "shed"),
        ):
            if getattr(self, name):
                yield name, what

    @property
    def overlap(self) -> float | None:
        """Concept overlap: the share of the groups of two neighbouring windows that both have; None if none were
        compared.
        """
        return self.drift_common / self.drift_union if self.drift_union else None

    @property
    def distance(self) -> float | None:
        """Concept distance, from 0 to 1: how far the frequencies of their groups are apart."""
        return self.drift_apart / self.drift_total if self.drift_total else None

    @property
    def rate(self) -> float:
        """The share of rows that the last batch was to shed."""
        return self.shed_rate / 1e6

    @property
    def estimated_error(self) -> float | None:
        """The mean of the estimated errors of the windows of the last batch; None if any of them is unknown."""
        known = self.windows_with_error
        return self.error_millionths / 1e6 / known if known and not self.windows_without_error else None

    @property
    def windows_without_error(self) -> int:
        """Windows of the last batch of which rows were shed, and of which nobody can tell the error."""
        return self.batch_approximate_windows - self.windows_with_error

    @property
    def compressed_share(self) -> float:
        """The share of chunks that are compressed."""
        return self.compressed_chunks / self.chunks if self.chunks else 0.0


def metric_fields() -> list[T.StructField]:
    return [T.StructField(name, T.LongType()) for name in NAMES]


def metric_values(metrics: ShardMetrics | None) -> dict[str, list[int]]:
    """One row of metrics, for a frame; zeros beside a row that carries results."""
    return {name: [value] for name, value in asdict(metrics or ShardMetrics()).items()}


def observed(frame: DataFrame, query: str) -> DataFrame:
    """Streams report as `muntin`. Tables add the query's own id: Spark wants one name of each in a plan, and results
    of several queries over tables are joined and united all the time.
    """
    sums: list[Column] = [(F.max if name in _LARGEST else F.sum)(name).alias(name) for name in NAMES]
    return frame.observe(OBSERVATION if frame.isStreaming else f"{OBSERVATION}-{query}", *sums)


def progress(query: Any) -> Progress:
    """The metrics of a running or ended streaming query, as a plain object.

    Warns, with a `MuntinWarning`, where most rows of the recent batches came too late for all of their windows.
    """
    if not isinstance(getattr(query, "recentProgress", None), list):
        raise MuntinError(
            f"progress() takes the StreamingQuery that writeStream...start() returns, got {_kind(query)}. A table has "
            "no progress: count its results, or look at what .explain() says."
        )
    observations = ((each, each["observedMetrics"].get(OBSERVATION)) for each in reversed(query.recentProgress))
    reports = [(report, _as_dict(found)) for report, found in observations if found is not None]
    if not reports:
        return Progress()
    report, values = reports[0]
    known = {_PROGRESS_NAMES.get(name, name): int(values[name] or 0) for name in NAMES}
    # Not every batch closes windows.
    compared = next((each for _, each in reports if each["drift_union"]), values)
    known |= {name: int(compared[name] or 0) for name in NAMES if name.startswith("drift_")}
    seconds = report["durationMs"].get("triggerExecution", 0) / 1000
    rate = report.numInputRows / seconds if seconds else 0.0  # the item is None in a Connect session
    warning = late_warning(reports)
    if warning is not None:
        warnings.warn(warning, MuntinWarning, stacklevel=2)
    return Progress(batch_id=int(report["batchId"]), batch_seconds=seconds, rows_per_s=rate, warning=warning, **known)


def late_warning(reports: Sequence[tuple[Any, Mapping[str, Any]]]) -> str | None:
    """What to say if most rows of the recent batches with rows were late; `reports` begin with the last batch."""
    recent = [values for _, values in reports if values["rows"]][:RECENT]
    rows, late = (sum(int(values[name]) for values in recent) for name in ("rows", "late_rows"))
    if 2 * late <= rows:
        return None
    report, _ = reports[0]
    watermark, clock = (_time(each) for each in (report.eventTime.get("watermark"), report.timestamp))
    if watermark is None or clock is None or watermark > clock:
        why = f"which is ahead of the clock ({report.timestamp}): a row from the future has moved it there"
        remedy = "give over(..., max_ahead='1 hour'), which sets such rows aside, and start with a new checkpoint"
    else:
        why = f"{describe(round((clock - watermark).total_seconds()) * 1_000_000)} behind the clock"
        remedy = "give a longer watermark="
    return (
        f"{late:,} of the {rows:,} rows in the last {len(recent):,} batches with rows came too late for all of their "
        f"windows. The watermark is at {report.eventTime.get('watermark')}, {why}. If that is not as it should be, "
        f"{remedy}."
    )


def _time(text: str | None) -> datetime | None:
    """A time as Spark writes it, unless it is beyond the calendar of Python."""
    try:
        return None if text is None else datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return None


def _kind(query: Any) -> str:
    kind = type(query).__name__
    if isinstance(query, DataFrame):
        return f"a {'streaming ' * query.isStreaming}{kind}"
    return "None; start() returns it, awaitTermination() does not" if query is None else f"a {kind}"


def _as_dict(row: Any) -> dict[str, Any]:
    values = row.asDict() if hasattr(row, "asDict") else dict(row)
    if set(values) == {"values", "schema"}:  # a Connect session's row
        return dict(zip((each["name"] for each in values["schema"]["fields"]), values["values"], strict=True))
    return dict(values)
