"""Overload on Spark: a stream that arrives in real time, three times as fast as the machine can process it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from time import monotonic, sleep, time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import muntin
from muntin import windows as W
from muntin.bench.shed_fit import Fit
from muntin.spark.metrics import metrics_of

FIT = Fit(degree=8, rounds=60)
KEYS = 16
PROBE_ROWS, PROBE_BATCHES, PROBE_WARM_UP = 500_000, 4, 3
"""The stream that measures the capacity of the machine. Its batches are long, as under overload, so that the fixed cost
of a batch hardly counts. No window closes in the first batch."""


@dataclass(frozen=True)
class Seen:
    """A batch of a stream, as reported by Spark."""

    batch: int
    begun: float
    """The start, in seconds since the start of the stream."""
    seconds: float
    rows: int
    rate: float
    """The share that was to be shed."""
    lag: float
    """Seconds from its latest event time to its end."""


@dataclass(frozen=True)
class Driven:
    """A stream that ran for some time."""

    rows_per_s: int
    seconds: float
    batches: tuple[Seen, ...]
    backlog: float
    """Seconds of input that were not processed when the stream stopped."""


def capacity(spark: SparkSession, scratch: Path, rows: int = PROBE_ROWS) -> float:
    """The rows per second that the machine can process, from batches of a second of event time without waiting."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    source = source.option("advanceMillisPerBatch", 1000).option("startTimestamp", 1_700_000_000_000)
    query = _start(fits(source.load()), scratch / "capacity")
    reports: dict[int, Any] = {}
    while len(reports) < PROBE_WARM_UP + PROBE_BATCHES and query.isActive:
        sleep(0.5)
        reports |= _reports(query)
    query.stop()
    seconds = [report["durationMs"]["triggerExecution"] / 1e3 for report in reports.values()]
    return rows / float(median(seconds[PROBE_WARM_UP:]))


def fits(frame: DataFrame) -> muntin.Query:
    """A fit per second and key."""
    noise = F.abs(F.xxhash64("value") % 1000) / 1000
    columns = frame.select(
        F.col("timestamp").alias("time"), (F.col("value") % KEYS).cast("int").alias("key"), noise.alias("value")
    )
    query = muntin.over(columns, W.tumbling("1 second"), time="time", watermark="1 second", by="key")
    return query.apply(FIT, "level double, slope double", columns=["time", "value"])


def drive(
    spark: SparkSession,
    scratch: Path,
    rows_per_s: int,
    seconds: float,
    target: str | None,
    tick: Callable[[str], None],
) -> Driven:
    """Run the stream in real time, from Spark's `rate` source. It is shed if there is a `target` latency."""
    query = fits(spark.readStream.format("rate").option("rowsPerSecond", rows_per_s).load())
    if target is not None:
        query = query.shed(target_latency=target)
    stream = _start(query, scratch / f"overload-{target}")
    begun, clock = time(), monotonic()
    reports: dict[int, Any] = {}
    while monotonic() - clock < seconds and stream.isActive:
        sleep(0.5)
        reports |= _reports(stream)
        tick(f"batch {len(reports)}")
    stream.stop()
    ended = time()
    failure = stream.exception()
    if failure is not None:
        raise failure
    batches = tuple(_seen(report, begun) for report in reports.values())
    last_batch = batches[-1] if batches else None
    backlog = (
        ended - begun
        if last_batch is None
        else ended - begun - (last_batch.begun + last_batch.seconds) + last_batch.lag
    )
    return Driven(rows_per_s, ended - begun, batches, backlog)


def _start(query: muntin.Query, checkpoint: Path) -> StreamingQuery:
    writer = query.to_df().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return writer.start()


def _reports(query: StreamingQuery) -> dict[int, Any]:
    """The batches with rows so far. Spark keeps the last hundred."""
    return {report["batchId"]: report for report in query.recentProgress if report["numInputRows"] > 0}


def _seen(report: Any, stream_start: float) -> Seen:
    begun = _seconds(report["timestamp"])
    seconds = report["durationMs"]["triggerExecution"] / 1e3
    metrics = metrics_of(report)
    return Seen(
        batch=int(report["batchId"]),
        begun=begun - stream_start,
        seconds=seconds,
        rows=int(report["numInputRows"]),
        rate=0.0 if metrics is None else int(metrics["shed_rate"] or 0) / 1e6,
        lag=begun + seconds - _seconds(report["eventTime"]["max"]),
    )


def _seconds(text: str) -> float:
    """Spark reports times in UTC."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc).timestamp()
