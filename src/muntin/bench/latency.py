"""Latency: from the arrival of the row that closes a window to its result at the sink.

Files with a tenth of a second of rows arrive as a stream would, at 1,000, 10,000 and 100,000 rows per second, and every
system takes what has arrived as soon as it is done with the batch before. Event time is the time of arrival, but for
rows that are out of order by up to half a second. The row that closes a window is the first that moves the watermark to
the end of the window. Spark closes windows by the watermark of the batches before, so a result takes the rest of the
batch in which that row arrives, the batch that reads it, and the batch that answers. Muntin's time windows contain the
same rows as Spark's, so that holds for Muntin, too.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from muntin.bench.latency_plot import draw
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.small import KEYS, System, differences, ours, tiles, window
from muntin.bench.steady import EPOCH, SCHEMA, write_rows
from muntin.spark.session import PARTITIONS, partitions

TICK = 0.1
"""Seconds between two files."""
LEAD = 4
"""Seconds of event time that a query gets at once, before its clock starts: its first batches take far longer."""
SECOND = 1_000_000
ENDS = "muntin_bench_latency"
"""The observation of the windows that reach the sink."""
OURS, WINDOW, TILES = "Muntin", "Spark window()", "chained tiles"
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Scale:
    rounds: int
    rates: tuple[int, ...]
    seconds: int
    """How long each rate lasts."""
    patience: float = 6.0
    """Seconds after the last file; results that come later count as never."""


FULL = Scale(rounds=2, rates=(1_000, 10_000, 100_000), seconds=10)
"""Few long rounds, as every start of a query takes seconds: twenty windows for each rate and system in four minutes."""
QUICK = Scale(rounds=1, rates=(1_000, 10_000), seconds=3)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every answer is Spark's."""
    scale = QUICK if quick else FULL
    title = "Latency of windows of 60 s by 1 s, 1,000 keys"
    return run_benchmark("latency", title, out, lambda running: _Bench(running, scale).run())


@dataclass(frozen=True)
class Arrivals:
    """The files of a run, in order, and what they do to windows."""

    files: tuple[Path, ...]
    rates: tuple[int, ...]
    """The rate at which each file arrives; 0 for those that are there from the start."""
    latest: tuple[int, ...]
    """The latest event time in each file or one before it, in microseconds."""

    @classmethod
    def written(cls, folder: Path, scale: Scale) -> Arrivals:
        folder.mkdir(parents=True)
        rng = np.random.default_rng(0)
        files, rates, latest = [], [], [0]
        lead = round(LEAD / TICK)
        by_file = [0] * lead + [rate for rate in scale.rates for _ in range(round(scale.seconds / TICK))]
        for number, rate in enumerate(by_file):
            count = round((rate or scale.rates[0]) * TICK)
            begin = EPOCH + round(number * TICK * SECOND)
            times = np.sort(rng.integers(begin, begin + round(TICK * SECOND), count))
            times -= rng.integers(0, SECOND // 2, count)
            path = folder / f"{number:05d}.parquet"
            write_rows(path, times, rng.integers(0, KEYS, count), rng.random(count))
            files.append(path)
            rates.append(rate)
            latest.append(max(latest[-1], int(times.max())))
        return cls(tuple(files), tuple(rates), tuple(latest[1:]))

    def closing(self) -> dict[int, int]:
        """The ends of windows that close while files arrive, and the number of the file that closes each."""
        closing, first = {}, self.rates.count(0)
        end = (self.latest[first - 1] // SECOND) * SECOND
        for number in range(first, len(self.files)):
            while end + SECOND <= self.latest[number]:  # the delay of the watermark is a second
                if end + SECOND > self.latest[number - 1]:
                    closing[end] = number
                end += SECOND
        return closing


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._scale = scale
        plain = running.spark.newSession()  # Spark's own operators run with Spark's settings and state store
        plain.conf.set(PARTITIONS, str(partitions(running.spark)))
        self._systems: dict[str, tuple[SparkSession, System]] = {
            OURS: (running.spark, ours),
            WINDOW: (plain, window),
            TILES: (plain, tiles),
        }
        running.steps(3 + (scale.rounds + 1) * len(self._systems))

    def run(self) -> tuple[list[Record], Draw]:
        with self._running.step("making data"):
            arrivals = Arrivals.written(self._running.place / "rows", self._scale)
        unequal = {name: self._compare(name, arrivals) for name in (WINDOW, TILES)}
        seconds: dict[str, dict[int, list[float]]] = {
            name: {rate: [] for rate in self._scale.rates} for name in self._systems
        }
        for turn in range(self._scale.rounds + 1):
            for name in self._systems:
                if turn == 0:
                    self._warm_up(name, arrivals)
                    continue
                for rate, latency in self._latencies(name, arrivals, f"round {turn} of {self._scale.rounds}, {name}"):
                    seconds[name][rate].append(latency)
        quantiles = {
            name: {rate: percentiles(values) for rate, values in rates.items()} for name, rates in seconds.items()
        }
        return _records(seconds, quantiles, unequal), partial(draw, quantiles)

    def _warm_up(self, name: str, arrivals: Arrivals) -> None:
        with self._running.step(f"warming up, {name}"):
            folder = self._folder()
            _link(arrivals.files, folder)
            query = self._started(name, folder, files=40, available_now=True)
            query.awaitTermination()

    def _latencies(self, name: str, arrivals: Arrivals, title: str) -> list[tuple[int, float]]:
        """The rate at which each window closed, and the seconds until its result."""
        with self._running.step(title):
            folder, lead = self._folder(), arrivals.rates.count(0)
            _link(arrivals.files[:lead], folder)
            query = self._started(name, folder)
            while not _emitted(query):
                _check(query)
                time.sleep(0.05)
            begin = time.time()
            arrived: dict[int, float] = {}
            for number, file in enumerate(arrivals.files[lead:], start=lead):
                time.sleep(max(0.0, begin + (number - lead) * TICK - time.time()))
                _link([file], folder)
                arrived[number] = time.time()
            closing = arrivals.closing()
            give_up = time.time() + self._scale.patience
            while max(closing) not in (emitted := _emitted(query, closing)) and time.time() < give_up:
                _check(query)
                time.sleep(0.05)
            query.stop()
        return [
            (arrivals.rates[number], emitted.get(end, float("inf")) - arrived[number])
            for end, number in closing.items()
        ]

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._running.place))

    def _started(self, name: str, folder: Path, files: int = 1_000, available_now: bool = False) -> StreamingQuery:
        spark, system = self._systems[name]
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(folder))
        ends = system(rows).observe(ENDS, F.max(F.col("window.end").cast("double")).alias("latest"))
        writer = ends.writeStream.format("noop").option("checkpointLocation", str(self._folder()))
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    def _compare(self, name: str, arrivals: Arrivals) -> int:
        """The results of the stream's first rows that differ from Muntin's."""
        with self._running.step(f"comparing results with {name}"):
            files = [str(file) for file in arrivals.files[: round(2 * LEAD / TICK)]]
            table = self._running.spark.read.parquet(*files).where("key < 50")
            return differences(ours(table), self._systems[name][1](table))


def _link(files: Sequence[Path], folder: Path) -> None:
    """Let files arrive: each appears at once, with all of its rows."""
    for file in files:
        os.link(file, folder / file.name)


def _check(query: StreamingQuery) -> None:
    if not query.isActive:
        raise RuntimeError(f"The query ended: {query.exception()}")


def _emitted(query: StreamingQuery, ends: Mapping[int, int] | None = None) -> dict[int, float]:
    """When the results of each window were at the sink. Without `ends`, of the latest window of each batch."""
    emitted: dict[int, float] = {}
    for report in query.recentProgress:
        latest = report["observedMetrics"].get(ENDS)
        if latest is None or latest["latest"] is None:
            continue
        until = round(latest["latest"] * SECOND)
        for end in (until,) if ends is None else ends:
            if end <= until:
                emitted.setdefault(end, _at_sink(report))
    return emitted


def _at_sink(report: Any) -> float:
    """When a batch had written its results: at its end, less the time to note that it is done."""
    begin = datetime.fromisoformat(str(report["timestamp"]).replace("Z", "+00:00")).timestamp()
    spent: dict[str, int] = report["durationMs"]
    return begin + (spent["triggerExecution"] - spent.get("commitOffsets", 0)) / 1000


def percentiles(seconds: Sequence[float]) -> dict[int, float]:
    """The latency that this share of the windows does not exceed; infinite if some never came."""
    ordered = sorted(seconds)
    return {share: ordered[-(-len(ordered) * share // 100) - 1] for share in PERCENTILES}


def _records(
    seconds: Mapping[str, Mapping[int, Sequence[float]]],
    quantiles: Mapping[str, Mapping[int, Mapping[int, float]]],
    unequal: Mapping[str, int],
) -> list[Record]:
    records = []
    for name, rates in quantiles.items():
        for rate, values in rates.items():
            median, ours_median = values[50], quantiles[OURS][rate][50]
            shown = ", ".join(f"p{share} {_shown(value)}" for share, value in values.items())
            records.append(
                Record(
                    name=f"{name}, {rate:,} rows/s",
                    rows_per_s=float(rate),
                    baseline=None,
                    ratio=ours_median / median if name != OURS and np.isfinite(median) else None,
                    target=None,
                    better="lower",
                    note=f"{shown}, of {len(seconds[name][rate])} windows",
                )
            )
    records += [
        Record(f"results that differ from: {name}", None, None, float(count), 0.0, better="lower")
        for name, count in unequal.items()
    ]
    return records


def _shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if np.isfinite(seconds) else "never"
