"""Linear Road under tunable compression: throughput, latency, memory and compressions by D (paper 000, figures 1 to 4).

Windows of three hours that advance by a minute, per vehicle, with the state of all three hours in place. Besides, a
limit of memory through a burst, and the exact sliding median beside Spark's `percentile`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench import linear_road as lr
from muntin.bench.compress_plot import Point, draw
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import (
    FILES_PER_BATCH,
    Load,
    Measured,
    measure,
    stream,
    worker_memory,
    write_batches,
)
from muntin.spark.metrics import Progress

DELAYS: Mapping[str, str | None] = {
    "∞": None,
    "20 min": "20 minutes",
    "10 min": "10 minutes",
    "1 min": "1 minute",
    "15 s": "15 seconds",
    "0": "0 seconds",
}
"""D, as the paper has it."""
THROUGHPUT = {"1 min": 0.95, "0": 0.75}
"""Targets, by D: the share of the throughput without compression."""
SMALLER = {"1 min": 3.0, "0": 4.0}
"""Targets, by D: how many times smaller the state is."""
PAST = lr.SPAN + 600
"""Seconds of event time in the first batch, whose windows close with the second; neither counts."""
WARM_UP = 2
LIMIT = 1.25
"""The limit of memory, in states of the ordinary rate that are not compressed."""
BURST = 4
HELD_WITHIN = 1.1
MEDIAN_SIZE = 60
MEDIAN_TARGET = 20.0
COMPARED_KEYS = 50


def _median_speed(frame: DataFrame) -> muntin.Query:
    query = muntin.over(frame, W.sliding(lr.SIZE, lr.ADVANCE), time="time", watermark=lr.WATERMARK, by="vehicle")
    return query.agg(speed=A.median("speed"))


@dataclass(frozen=True)
class Workload:
    """A query over Linear Road at one rate."""

    title: str
    joins: float
    """Vehicles that join per second. Each makes 37 reports, and is in windows for three hours and its trip."""
    query: Callable[[DataFrame], muntin.Query]
    delays: tuple[str, ...]
    """Which D, besides ∞."""
    aimed: bool = False
    """Whether the targets are for it: the largest of its kind."""

    @property
    def folder(self) -> str:
        return f"road-{self.joins}"


@dataclass(frozen=True)
class Scale:
    workloads: tuple[Workload, ...]
    seconds: int
    """Of event time per batch."""
    batches: int
    """That count."""
    burst_joins: float
    medians: Load
    """Of the sliding median. The first batch does not count; it fills the windows if it is as long as they are.

    With 300,000 rows in a batch, five a second of each key, Spark runs out of its gigabyte of heap.
    """


ALL = tuple(name for name, delay in DELAYS.items() if delay is not None)
FULL = Scale(
    workloads=(
        Workload("median speed, 90 reports/s", 2.5, _median_speed, ("1 min", "0")),
        Workload("median speed, 370 reports/s", 10.0, _median_speed, ALL, aimed=True),
        Workload("stops by .apply, 18 reports/s", 0.5, lr.stops_of_windows, ("1 min", "0"), aimed=True),
    ),
    seconds=600,
    batches=4,
    burst_joins=2.5,
    medians=Load(keys=1_000, per_second=1, seconds=2 * MEDIAN_SIZE, batches=2),
)
QUICK = Scale(
    workloads=(
        Workload("median speed, 40 reports/s", 1.0, _median_speed, ("1 min", "0")),
        Workload("stops by .apply, 1 report/s", 0.02, lr.stops_of_windows, ("1 min",)),
    ),
    seconds=600,
    batches=2,
    burst_joins=0.5,
    medians=Load(keys=1_000, per_second=1, seconds=10, batches=2),
)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every target is met."""
    scale = QUICK if quick else FULL
    return run_benchmark("compress", "Tunable compression", out, lambda running: _Bench(running, scale).run())


@dataclass(frozen=True)
class Run:
    """One query over one workload, in steady state."""

    measured: Measured
    batches: tuple[Progress, ...]
    """Of the same batches."""
    memory: int
    """The resident memory of the Python workers together, at most, in bytes."""

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
        """The share of the rate of others, of the fastest batch each: what the machine does when left alone."""
        return self.measured.fastest / fmean(each.measured.fastest for each in others)


@dataclass(frozen=True)
class Beside:
    """A run with some D, and those without compression before and after it."""

    run: Run
    before: Run
    after: Run

    @property
    def throughput(self) -> float:
        return self.run.rate_beside(self.before, self.after)

    @property
    def baseline(self) -> float:
        return fmean([self.before.measured.fastest, self.after.measured.fastest])

    @property
    def smaller(self) -> float:
        return self.after.chunk_bytes / self.run.chunk_bytes

    @property
    def latency(self) -> float:
        return self.run.latency / fmean([self.before.latency, self.after.latency])

    @property
    def memory(self) -> float:
        return self.run.memory / fmean([self.before.memory, self.after.memory])


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._spark = running.spark
        self._place = running.place
        self._scale = scale
        runs = sum(2 * len(workload.delays) + 2 for workload in scale.workloads)
        running.steps(1 + runs + 1 + 1 + 3)

    def run(self) -> tuple[list[Record], Draw]:
        with self._running.step("warming up"):
            _write_road(self._place / "warm-up", _steady(0.02, PAST + 600), [PAST, 600])
            self._measured(_median_speed(self._road("warm-up")), warm_up=0)
        records: list[Record] = []
        points: dict[str, list[Point]] = {}
        for workload in self._scale.workloads:
            beside = self._by_delay(workload)
            points[workload.title] = [_point("∞", next(iter(beside.values())).before, None)] + [
                _point(name, each.run, each) for name, each in beside.items()
            ]
            for name, each in beside.items():
                records += _records(workload, name, each)
            if workload.query is lr.stops_of_windows:
                records += self._panes(workload, list(beside.values())[-1].after)
        records.append(self._burst())
        records += self._sliding_median()
        return records, partial(draw, points)

    def _road(self, folder: str) -> DataFrame:
        reader = self._spark.readStream.schema(lr.SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH)
        return reader.parquet(str(self._place / folder))

    def _by_delay(self, workload: Workload) -> dict[str, Beside]:
        """Every D between two runs without compression, so that neither has the quieter machine."""
        scale = self._scale
        with self._running.step(f"{workload.title}: making data"):
            lengths = [PAST] + [scale.seconds] * (scale.batches + WARM_UP - 1)
            _write_road(self._place / workload.folder, _steady(workload.joins, sum(lengths)), lengths)
        plain, found = [self._with_delay(workload, "∞")], {}
        for name in workload.delays:
            found[name] = self._with_delay(workload, name)
            plain.append(self._with_delay(workload, "∞"))
        return {name: Beside(each, plain[i], plain[i + 1]) for i, (name, each) in enumerate(found.items())}

    def _with_delay(self, workload: Workload, name: str) -> Run:
        with self._running.step(f"{workload.title}, D = {name}"):
            query = workload.query(self._road(workload.folder)).compress(after=DELAYS[name])
            return self._measured(query)

    def _measured(self, query: muntin.Query, warm_up: int = WARM_UP) -> Run:
        _end_idle_workers()  # what they keep of other runs is not this one's
        samples = []

        def look(batch: str) -> None:
            if int(batch.split()[-1]) >= warm_up:
                samples.append(sum(worker_memory()))

        measured = measure(query.to_df(), self._place / "scratch", warm_up, look)
        samples.append(sum(worker_memory()))
        return Run(measured, _batches(measured, warm_up), max(samples))

    def _panes(self, workload: Workload, tuples: Run) -> list[Record]:
        """The paper's query from partial results, beside the function of whole windows."""
        with self._running.step("stops by A.custom"):
            panes = self._measured(lr.stops_by_panes(self._road(workload.folder)))
        rate, base = panes.measured.rows_per_s, tuples.measured.rows_per_s
        return [
            Record(
                name="stops: A.custom against .apply",
                rows_per_s=rate,
                baseline=base,
                ratio=rate / base,
                target=None,
                baseline_name=".apply",
                note=f"{panes.last.batch_results:,} results of a batch; {tuples.last.batch_results:,} by .apply, "
                f"{tuples.last.batch_results / tuples.last.batch_seconds:,.0f} a second with all that a batch costs",
            ),
            Record(
                name="stops: state of A.custom against .apply, bytes",
                rows_per_s=None,
                baseline=tuples.last.state_bytes,
                ratio=panes.last.state_bytes / tuples.last.state_bytes,
                target=None,
                better="lower",
                baseline_name="bytes by .apply",
                note=f"{panes.last.state_bytes:,} bytes: no tuples, but a state of each that is lifted",
            ),
        ]

    def _burst(self) -> Record:
        """A limit that the ordinary rate does not reach, and a burst that does."""
        seconds, joins = self._scale.seconds, self._scale.burst_joins
        ordinary, burst, after = [PAST, seconds], [seconds] * 4, [seconds]
        lengths = ordinary + burst + after
        road = lr.Road(xways=BURST, joins=(joins, joins), seconds=sum(lengths), seed=11)
        with self._running.step("memory limit through a burst"):
            begin = lr.EPOCH + sum(ordinary) * lr.SECOND
            end = begin + sum(burst) * lr.SECOND
            _write_road(self._place / "burst", road, lengths, lambda table: _only_in_burst(table, begin, end))
            plain = self._measured(_median_speed(self._road("burst")), warm_up=1)
            ordinary_bytes = plain.batches[0].uncompressed_bytes
            limit = int(LIMIT * ordinary_bytes)
            held = self._measured(_median_speed(self._road("burst")).compress(memory=limit), warm_up=1)
        fullest = max(each.resident_bytes for each in held.batches)
        without = max(each.uncompressed_bytes for each in plain.batches)
        by_batch = ", ".join(f"{each.resident_bytes / limit:.2f}" for each in held.batches)
        return Record(
            name=f"memory limit through a burst of {BURST}× the rate: bytes in memory",
            rows_per_s=None,
            baseline=limit,
            ratio=fullest / limit,
            target=HELD_WITHIN,
            better="lower",
            baseline_name="bytes at most",
            note=f"by batch {by_batch}; {without:,} bytes without a limit; {held.last.compressions:,} compressions, "
            f"{held.rate_beside(plain):.2f} of the throughput",
        )

    def _sliding_median(self) -> list[Record]:
        load, folder = self._scale.medians, self._place / "median"
        write_batches(folder, load)
        # Both get the same batches: Spark's rate grows with them, as Muntin's does.
        with self._running.step("sliding median"):
            ours = self._running.measure(_ours(stream(self._spark, folder)).to_df(), warm_up=1)
        with self._running.step("sliding median, Spark's percentile"):
            # With Muntin's settings: the state store that Spark has by default runs out of memory here.
            sparks = self._running.measure(_sparks(stream(self._spark, folder)), warm_up=1)
        with self._running.step("comparing medians"):
            write_batches(self._place / "compare", Load(load.keys, load.per_second, seconds=10, batches=1), seed=3)
            some = self._spark.read.parquet(str(self._place / "compare")).where(f"key < {COMPARED_KEYS}")
            differing = _differences(_ours(some).to_df(), _sparks(some))
        return [
            Record(
                name=f"sliding median, size/slide {MEDIAN_SIZE}: Muntin against Spark's percentile",
                rows_per_s=ours.rows_per_s,
                baseline=sparks.rows_per_s,
                ratio=ours.rows_per_s / sparks.rows_per_s,
                target=MEDIAN_TARGET,
                baseline_name="Spark",
                note=f"{load.keys:,} keys of {load.per_second} rows a second; both in batches of {load.rows:,} rows "
                "and with state in RocksDB",
            ),
            Record(
                name="sliding median: results that differ from Spark's",
                rows_per_s=None,
                baseline=None,
                ratio=float(differing),
                target=0.0,
                better="lower",
            ),
        ]


def _steady(joins: float, seconds: int) -> lr.Road:
    return lr.Road(seconds=seconds, joins=(joins, joins))


def _write_road(
    folder: Path, road: lr.Road, lengths: Sequence[int], kept: Callable[[pa.Table], pa.Table] = lambda table: table
) -> None:
    """A few files for every batch of so many seconds."""
    folder.mkdir(parents=True)
    tables = lr.reports(road, stretch=60)
    for batch, length in enumerate(lengths):
        table = kept(pa.concat_tables([next(tables) for _ in range(length // 60)]))
        share = -(-len(table) // FILES_PER_BATCH)
        for part in range(FILES_PER_BATCH):
            path = folder / f"{batch:04d}-{part}.parquet"
            pq.write_table(table.slice(part * share, share), path, compression="lz4")
            os.utime(path, (1_000_000 + batch, 1_000_000 + batch))  # Spark takes the oldest files first


def _only_in_burst(table: pa.Table, begin: int, end: int) -> pa.Table:
    """One expressway, and the others in the burst alone."""
    time = table["time"].cast(pa.int64())
    burst = pc.and_(pc.greater_equal(time, begin), pc.less(time, end))
    return table.filter(pc.or_(burst, pc.equal(table["xway"], 0)))


def _batches(measured: Measured, warm_up: int) -> tuple[Progress, ...]:
    reports = [each for each in measured.query.recentProgress if each["numInputRows"] > 0][warm_up:]
    return tuple(muntin.progress(SimpleNamespace(recentProgress=[report])) for report in reports)


def _end_idle_workers() -> None:
    """End the Python workers of this session, none of which has work; Spark starts others when it needs them."""
    daemons = {pid for pid in _children() if b"pyspark.daemon" in _read(pid, "cmdline")}
    for pid in daemons:
        if _parent(pid) in daemons:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _children() -> set[int]:
    """All processes below this one."""
    parents = {int(path.name): _parent(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found, last = {os.getpid()}, 0
    while len(found) > last:
        last = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {os.getpid()}


def _parent(pid: int) -> int:
    status = _read(pid, "stat")
    return int(status.rpartition(b")")[2].split()[1]) if status else 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""  # it has just ended


def _point(name: str, run: Run, beside: Beside | None) -> Point:
    return Point(
        delay=name,
        throughput=1.0 if beside is None else beside.throughput,
        rows_per_s=run.measured.rows_per_s,
        latency=run.latency,
        latency_beside=1.0 if beside is None else beside.latency,
        state=run.chunk_bytes,
        memory=run.memory,
        compressions=run.last.compressions,
        decompressions=run.last.decompressions,
        share=run.last.compressed_share,
    )


def _records(workload: Workload, name: str, beside: Beside) -> list[Record]:
    run, plain, last = beside.run, beside.after, beside.run.last
    title = f"{workload.title}, D = {name}"
    return [
        Record(
            name=f"{title}: throughput against D = ∞",
            rows_per_s=run.measured.fastest,
            baseline=beside.baseline,
            ratio=beside.throughput,
            target=THROUGHPUT.get(name) if workload.aimed else None,
            baseline_name="at ∞",
            note=f"{len(run.measured.rows)} batches of about {run.measured.rows[0]:,} rows and {last.batch_results:,} "
            f"results, over {last.chunk_tuples:,} tuples in the state; the fastest, beside those before and after",
        ),
        Record(
            name=f"{title}: state, times smaller",
            rows_per_s=None,
            baseline=plain.chunk_bytes,
            ratio=beside.smaller,
            target=SMALLER.get(name) if workload.aimed else None,
            baseline_name="bytes at ∞",
            note=f"{run.chunk_bytes:,} bytes of chunks, {last.compressed_share:.0%} of them compressed; "
            f"{last.compressions:,} compressions, {last.decompressions:,} decompressions; with the panes "
            f"{last.state_bytes:,} bytes, {plain.last.state_bytes / last.state_bytes:.2f} times smaller",
        ),
        Record(
            name=f"{title}: latency",
            rows_per_s=None,
            baseline=None,
            ratio=beside.latency,
            target=None,
            better="lower",
            note=f"{run.latency:.2f} s a batch, {fmean([beside.before.latency, plain.latency]):.2f} s at ∞",
        ),
        Record(
            name=f"{title}: resident memory of the workers",
            rows_per_s=None,
            baseline=plain.memory,
            ratio=beside.memory,
            target=None,
            better="lower",
            baseline_name="bytes at ∞",
            note=f"{run.memory / 1e6:,.0f} MB in all Python workers at most, of which {last.resident_bytes / 1e6:,.1f} "
            f"MB are chunks and {last.hot_bytes / 1e6:,.1f} MB panes",
        ),
    ]


def _ours(frame: DataFrame) -> muntin.Query:
    window = W.sliding(f"{MEDIAN_SIZE} seconds", "1 second")
    return muntin.over(frame, window, time="ts", watermark="1 second", by="key").agg(middle=A.median("value"))


def _sparks(frame: DataFrame) -> DataFrame:
    window = F.window("ts", f"{MEDIAN_SIZE} seconds", "1 second")
    found = F.percentile("value", F.lit(0.5)).alias("percentile")
    return frame.withWatermark("ts", "1 second").groupBy(window, "key").agg(found)


def _differences(ours: DataFrame, sparks: DataFrame) -> int:
    both = ours.select("window", "key", "middle").join(sparks, ["window", "key"], "full_outer")
    missing = F.col("middle").isNull() | F.col("percentile").isNull()
    return both.where(missing | (F.abs(F.col("middle") - F.col("percentile")) > 1e-12)).count()
