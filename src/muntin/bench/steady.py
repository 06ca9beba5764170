"""Streams for benchmarks, and their rate in steady state."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from muntin.arrays import Array

SCHEMA = "ts timestamp, key int, value double"
EPOCH = 1_700_000_000_000_000
"""Where the measured event time begins, in microseconds."""
FILES_PER_BATCH = 2
"""One per core, so that both have work."""


@dataclass(frozen=True)
class Load:
    """A stream: `keys` keys, each with `per_second` rows per second of event time, `seconds` of it per batch."""

    keys: int
    per_second: int
    seconds: int
    batches: int

    @property
    def rows(self) -> int:
        """Rows per batch."""
        return self.keys * self.per_second * self.seconds


def write_batches(folder: Path, load: Load, seed: int = 0) -> None:
    """A few files per batch. Neighbouring rows are out of order by up to half a second."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for batch in range(load.batches):
        begin = EPOCH + batch * load.seconds * 1_000_000
        for part in range(FILES_PER_BATCH):
            count = load.rows // FILES_PER_BATCH
            times = np.sort(rng.integers(begin, begin + load.seconds * 1_000_000, count))
            times += rng.integers(-500_000, 500_000, count)
            _write(
                folder / f"1-{batch:04d}-{part}.parquet", times, rng.integers(0, load.keys, count), rng.random(count)
            )


def write_past(folder: Path, keys: int, seconds: int) -> None:
    """One batch that comes before all others: one row per key and second of the past, so that windows are full."""
    rng = np.random.default_rng(seconds)
    per_file = -(-seconds // FILES_PER_BATCH)
    for part in range(FILES_PER_BATCH):
        first, last = part * per_file, min((part + 1) * per_file, seconds)
        times = EPOCH + (np.repeat(np.arange(first, last), keys) - seconds) * 1_000_000 + 500_000
        path = folder / f"0-{part}.parquet"
        _write(path, times, np.tile(np.arange(keys), last - first), rng.random(len(times)))
        os.utime(path, (0, 0))  # Spark takes the oldest files first


def write_tables(folder: Path, batches: Iterable[pa.Table]) -> Path:
    """Batches of any rows: a few files each, one stretch of time after the other."""
    folder.mkdir(parents=True)
    for batch, table in enumerate(batches):
        share = -(-len(table) // FILES_PER_BATCH)
        for part in range(FILES_PER_BATCH):
            path = folder / f"{batch:04d}-{part}.parquet"
            pq.write_table(table.slice(part * share, share), path, compression="lz4")
            os.utime(path, (1_000_000 + batch, 1_000_000 + batch))  # Spark takes the oldest files first
    return folder


def _write(path: Path, times: Array, keys: Array, values: Array) -> None:
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
    """Batches in steady state, those of the warm-up left out."""

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    query: StreamingQuery
    latencies: tuple[float, ...] = ()
    """Of these, the seconds from when rows and watermark are there until the results are at the sink."""

    def __add__(self, later: Measured) -> Measured:
        """The batches of both."""
        latencies = self.latencies + later.latencies
        return Measured(self.rows + later.rows, self.seconds + later.seconds, later.query, latencies)

    @property
    def rates(self) -> list[float]:
        return [rows / seconds for rows, seconds in zip(self.rows, self.seconds, strict=True)]

    @property
    def rows_per_s(self) -> float:
        """The rate of the median batch: one that the machine disturbed does not count."""
        return median(self.rates)

    @property
    def fastest(self) -> float:
        """The rate of the fastest batch: where two systems differ by little, what the machine does when left alone."""
        return max(self.rates)


def measure(frame: DataFrame, scratch: Path, warm_up: int, tick: Callable[[str], None]) -> Measured:
    """Run the stream to its end; the first `warm_up` batches with rows do not count, nor do those without."""
    scratch.mkdir(parents=True, exist_ok=True)
    checkpoint = tempfile.mkdtemp(dir=scratch)  # a new one: Spark may still write to that of a query that has ended
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    while not query.awaitTermination(1):
        tick(f"batch {len(query.recentProgress)}")
    reports = [each for each in query.recentProgress if each["numInputRows"] > 0][warm_up:]
    shutil.rmtree(checkpoint, ignore_errors=True)
    return Measured(
        rows=tuple(report["numInputRows"] for report in reports),
        seconds=tuple(report["durationMs"]["triggerExecution"] / 1000 for report in reports),
        query=query,
        latencies=tuple(report["durationMs"]["addBatch"] / 1000 for report in reports),
    )


def worker_peaks() -> list[int]:
    """The peak resident memory of each Python worker of this machine in bytes, as Linux counts it; none elsewhere."""
    return _of_workers("VmHWM")


def worker_memory() -> list[int]:
    """The same as it stands."""
    return _of_workers("VmRSS")


def _of_workers(field: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                lines = (process / "status").read_text().splitlines()
                found += [int(line.split()[1]) * 1024 for line in lines if line.startswith(field)]
        except OSError:
            continue  # it has just ended
    return found
