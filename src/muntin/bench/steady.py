"""Streams for benchmarks, and their rate in steady state."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from muntin.arrays import Array
from muntin.spark.metrics import metrics_of

SCHEMA = "ts timestamp, key int, value double"
EPOCH = 1_700_000_000_000_000
"""The start of the measured event time, in microseconds."""
FILES_PER_BATCH = 2
"""One per core."""


@dataclass(frozen=True)
class Load:
    """A stream: each key has `per_second` rows per second of event time, and a batch covers `seconds` of it."""

    keys: int
    per_second: int
    seconds: int
    batches: int

    @property
    def rows(self) -> int:
        """Rows per batch."""
        return self.keys * self.per_second * self.seconds


def write_batches(folder: Path, load: Load, seed: int = 0) -> None:
    """Write a few files per batch. Neighbouring rows are out of order by up to half a second."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for batch in range(load.batches):
        begin = EPOCH + batch * load.seconds * 1_000_000
        for part in range(FILES_PER_BATCH):
            count = load.rows // FILES_PER_BATCH
            times = np.sort(rng.integers(begin, begin + load.seconds * 1_000_000, count))
            times += rng.integers(-500_000, 500_000, count)
            write_rows(
                folder / f"1-{batch:04d}-{part}.parquet", times, rng.integers(0, load.keys, count), rng.random(count)
            )


def write_past(folder: Path, keys: int, seconds: int) -> None:
    """Write a first batch that fills the windows: one row per key and second before the measured time."""
    rng = np.random.default_rng(seconds)
    per_file = -(-seconds // FILES_PER_BATCH)
    for part in range(FILES_PER_BATCH):
        first, last = part * per_file, min((part + 1) * per_file, seconds)
        times = EPOCH + (np.repeat(np.arange(first, last), keys) - seconds) * 1_000_000 + 500_000
        path = folder / f"0-{part}.parquet"
        write_rows(path, times, np.tile(np.arange(keys), last - first), rng.random(len(times)))
        os.utime(path, (0, 0))  # Spark takes the oldest files first


def write_tables(folder: Path, batches: Iterable[pa.Table]) -> Path:
    """Write batches of any rows, in order, as a few files each."""
    folder.mkdir(parents=True)
    for batch, table in enumerate(batches):
        share = -(-len(table) // FILES_PER_BATCH)
        for part in range(FILES_PER_BATCH):
            path = folder / f"{batch:04d}-{part}.parquet"
            pq.write_table(table.slice(part * share, share), path, compression="lz4")
            os.utime(path, (1_000_000 + batch, 1_000_000 + batch))  # Spark takes the oldest files first
    return folder


def write_rows(path: Path, times: Array, keys: Array, values: Array) -> None:
    columns = {
        "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        "key": pa.array(keys.astype(np.int32)),
        "value": pa.array(values),
    }
    pq.write_table(pa.table(columns), path, compression="lz4")


def stream(spark: SparkSession, folder: Path, schema: str | StructType = SCHEMA) -> DataFrame:
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH)
    return reader.parquet(str(folder))


@dataclass(frozen=True)
class Measured:
    """Batches in steady state, without those of the warm-up."""

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    query: StreamingQuery
    latencies: tuple[float, ...] = ()
    """Seconds of each batch from having its rows and watermark until its results are at the sink."""
    reports: tuple[Any, ...] = ()
    """Spark's reports of the batches."""

    def __add__(self, later: Measured) -> Measured:
        """The batches of both runs."""
        latencies = self.latencies + later.latencies
        reports = self.reports + later.reports
        return Measured(self.rows + later.rows, self.seconds + later.seconds, later.query, latencies, reports)

    @property
    def rates(self) -> list[float]:
        return [rows / seconds for rows, seconds in zip(self.rows, self.seconds, strict=True)]

    @property
    def rows_per_s(self) -> float:
        """The rate of the median batch, which ignores disturbed batches."""
        return median(self.rates)

    @property
    def fastest(self) -> float:
        """The rate of the fastest batch, for systems that differ by little: it is the least disturbed one."""
        return max(self.rates)


def measure(
    frame: DataFrame, scratch: Path, warm_up: int, tick: Callable[[str], None], mode: str = "append"
) -> Measured:
    """Run the stream to its end. Batches without rows do not count, nor do the first `warm_up` batches with rows."""
    scratch.mkdir(parents=True, exist_ok=True)
    checkpoint = tempfile.mkdtemp(dir=scratch)  # a new one, since Spark may still write to that of an ended query
    writer = frame.writeStream.outputMode(mode).format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    while not query.awaitTermination(1):
        tick(f"batch {len(query.recentProgress)}")
    reports = [report for report in query.recentProgress if _rows(report) > 0][warm_up:]
    shutil.rmtree(checkpoint, ignore_errors=True)
    return Measured(
        rows=tuple(map(_rows, reports)),
        seconds=tuple(report["durationMs"]["triggerExecution"] / 1000 for report in reports),
        query=query,
        latencies=tuple(report["durationMs"]["addBatch"] / 1000 for report in reports),
        reports=tuple(reports),
    )


def _rows(report: Any) -> int:
    """The input rows of a batch. Of a scan, Spark sees packed panes alone."""
    observed = metrics_of(report) or {}
    return max(int(report["numInputRows"]), int(observed.get("rows") or 0))
