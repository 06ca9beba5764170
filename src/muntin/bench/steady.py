"""Streams for benchmarks, and their rate in steady state."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

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
    per_file = -(-seconds // FILES_PER_BATCH)
    for part in range(FILES_PER_BATCH):
        first, last = part * per_file, min((part + 1) * per_file, seconds)
        times = EPOCH + (np.repeat(np.arange(first, last), keys) - seconds) * 1_000_000 + 500_000
        _write(folder / f"0-{part}.parquet", times, np.tile(np.arange(keys), last - first), np.ones(len(times)))


def _write(path: Path, times: Array, keys: Array, values: Array) -> None:
    columns = {
        "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        "key": pa.array(keys.astype(np.int32)),
        "value": pa.array(values),
    }
    pq.write_table(pa.table(columns), path, compression="lz4")


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH)
    return reader.parquet(str(folder))


@dataclass
class Measured:
    """Batches in steady state, those of the warm-up left out."""

    rows: int = 0
    seconds: float = 0.0
    batches: list[float] = field(default_factory=list)
    query: StreamingQuery | None = None

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds


def measure(frame: DataFrame, scratch: Path, warm_up: int, tick: Callable[[str], None], sink: str = "noop") -> Measured:
    """Run the stream to its end; the first `warm_up` batches with rows do not count, nor do those without."""
    shutil.rmtree(scratch, ignore_errors=True)
    writer = frame.writeStream.format(sink).option("checkpointLocation", str(scratch / "checkpoint"))
    if sink != "noop":
        writer = writer.option("path", str(scratch / "out"))
    query = writer.trigger(availableNow=True).start()
    while not query.awaitTermination(1):
        tick(f"batch {len(query.recentProgress)}")
    measured = Measured(query=query)
    for report in [each for each in query.recentProgress if each["numInputRows"] > 0][warm_up:]:
        seconds = report["durationMs"]["triggerExecution"] / 1000
        measured.rows += report["numInputRows"]
        measured.seconds += seconds
        measured.batches.append(seconds)
    shutil.rmtree(scratch / "checkpoint", ignore_errors=True)
    return measured


def worker_peak_bytes() -> int:
    """The peak resident memory of all Python workers of this session, added up, as Linux counts it; 0 elsewhere."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                lines = (process / "status").read_text().splitlines()
                total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
        except OSError:
            continue  # it has just ended
    return total
