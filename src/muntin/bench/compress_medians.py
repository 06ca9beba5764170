"""Compression on Spark: the median speed on Linear Road by D, a memory limit through a burst, and Spark's percentile.

Windows of three hours advance by a minute, per vehicle, and are full before the first measured batch. In addition, the
exact sliding median against Spark's `percentile`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench import linear_road as lr
from muntin.bench.compress_medians_plot import Point, draw
from muntin.bench.compress_medians_records import Beside, records_of
from muntin.bench.compress_runs import DELAYS, Run, run_of, steady, write_road
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import (
    FILES_PER_BATCH,
    Load,
    stream,
    write_batches,
)

PAST = lr.SPAN + 600
"""Seconds of event time in the first batch. Its windows close with the second batch; neither counts."""
WARM_UP = 2
LIMIT = 1.25
"""The memory limit, relative to the uncompressed state at the normal rate."""
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
    """The values of D besides ∞."""
    aimed: bool = False
    """Whether the targets apply: to the largest workload of each kind."""

    @property
    def folder(self) -> str:
        return f"road-{self.joins}"


@dataclass(frozen=True)
class Scale:
    workloads: tuple[Workload, ...]
    seconds: int
    """Seconds of event time per batch."""
    batches: int
    """Measured batches."""
    burst_joins: float
    medians: Load
    """The input of the sliding median. The first batch does not count: it fills the windows if it is as long as they.

    With batches of 300,000 rows (five per second and key), Spark runs out of its 1 GB heap.
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
    return run_benchmark(
        "compress_medians", "Tunable compression on Spark", out, lambda running: _Bench(running, scale).run()
    )


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
            write_road(self._place / "warm-up", steady(0.02, PAST + 600), [PAST, 600])
            self._measured(_median_speed(self._road("warm-up")), warm_up=0)
        records: list[Record] = []
        points: dict[str, list[Point]] = {}
        for workload in self._scale.workloads:
            beside = self._by_delay(workload)
            points[workload.title] = [_point("∞", next(iter(beside.values())).before, None)] + [
                _point(name, comparison.run, comparison) for name, comparison in beside.items()
            ]
            for name, comparison in beside.items():
                records += records_of(workload.title, workload.aimed, name, comparison)
            if workload.query is lr.stops_of_windows:
                records += self._panes(workload, list(beside.values())[-1].after)
        records.append(self._burst())
        records += self._sliding_median()
        return records, partial(draw, points)

    def _road(self, folder: str) -> DataFrame:
        reader = self._spark.readStream.schema(lr.SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH)
        return reader.parquet(str(self._place / folder))

    def _by_delay(self, workload: Workload) -> dict[str, Beside]:
        """Run every D between two runs without compression, so that neither has the quieter machine."""
        scale = self._scale
        with self._running.step(f"{workload.title}: making data"):
            lengths = [PAST] + [scale.seconds] * (scale.batches + WARM_UP - 1)
            write_road(self._place / workload.folder, steady(workload.joins, sum(lengths)), lengths)
        plain, runs = [self._with_delay(workload, "∞")], {}
        for name in workload.delays:
            runs[name] = self._with_delay(workload, name)
            plain.append(self._with_delay(workload, "∞"))
        return {
            name: Beside(run, plain[position], plain[position + 1]) for position, (name, run) in enumerate(runs.items())
        }

    def _with_delay(self, workload: Workload, name: str) -> Run:
        with self._running.step(f"{workload.title}, D = {name}"):
            query = workload.query(self._road(workload.folder)).compress(after=DELAYS[name])
            return self._measured(query)

    def _measured(self, query: muntin.Query, warm_up: int = WARM_UP) -> Run:
        return run_of(query, self._place / "scratch", warm_up)

    def _panes(self, workload: Workload, tuples: Run) -> list[Record]:
        """The query of Gulisano (2024) from partial results, against the window function."""
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
        """A memory limit above the state at the normal rate, and a burst that exceeds it."""
        seconds, joins = self._scale.seconds, self._scale.burst_joins
        normal, burst, after = [PAST, seconds], [seconds] * 4, [seconds]
        lengths = normal + burst + after
        road = lr.Road(xways=BURST, joins=(joins, joins), seconds=sum(lengths), seed=11)
        with self._running.step("memory limit through a burst"):
            begin = lr.EPOCH + sum(normal) * lr.SECOND
            end = begin + sum(burst) * lr.SECOND
            write_road(self._place / "burst", road, lengths, lambda table: _only_in_burst(table, begin, end))
            plain = self._measured(_median_speed(self._road("burst")), warm_up=1)
            normal_bytes = plain.batches[0].uncompressed_bytes
            limit = int(LIMIT * normal_bytes)
            limited = self._measured(_median_speed(self._road("burst")).compress(memory=limit), warm_up=1)
        peak = max(batch.resident_bytes for batch in limited.batches)
        peak_without_limit = max(batch.uncompressed_bytes for batch in plain.batches)
        by_batch = ", ".join(f"{batch.resident_bytes / limit:.2f}" for batch in limited.batches)
        return Record(
            name=f"memory limit through a burst of {BURST}× the rate: bytes in memory",
            rows_per_s=None,
            baseline=limit,
            ratio=peak / limit,
            target=HELD_WITHIN,
            better="lower",
            baseline_name="bytes at most",
            note=f"by batch {by_batch}; {peak_without_limit:,} bytes without a limit; "
            f"{limited.last.compressions:,} compressions, {limited.rate_beside(plain):.2f} of the throughput",
        )

    def _sliding_median(self) -> list[Record]:
        load, folder = self._scale.medians, self._place / "median"
        write_batches(folder, load)
        # Both get the same batches, since both are faster with larger ones.
        with self._running.step("sliding median"):
            ours = self._running.measure(_ours(stream(self._spark, folder)).to_df(), warm_up=1)
        with self._running.step("sliding median, Spark's percentile"):
            # With Muntin's settings, since Spark's default state store runs out of memory here.
            sparks = self._running.measure(_sparks(stream(self._spark, folder)), warm_up=1)
        with self._running.step("comparing medians"):
            write_batches(self._place / "compare", Load(load.keys, load.per_second, seconds=10, batches=1), seed=3)
            table = self._spark.read.parquet(str(self._place / "compare")).where(f"key < {COMPARED_KEYS}")
            differing = _differences(_ours(table).to_df(), _sparks(table))
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


def _only_in_burst(table: pa.Table, begin: int, end: int) -> pa.Table:
    """The reports of the first expressway, and in the burst those of all."""
    time = table["time"].cast(pa.int64())
    burst = pc.and_(pc.greater_equal(time, begin), pc.less(time, end))
    return table.filter(pc.or_(burst, pc.equal(table["xway"], 0)))


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


def _ours(frame: DataFrame) -> muntin.Query:
    window = W.sliding(f"{MEDIAN_SIZE} seconds", "1 second")
    return muntin.over(frame, window, time="ts", watermark="1 second", by="key").agg(middle=A.median("value"))


def _sparks(frame: DataFrame) -> DataFrame:
    window = F.window("ts", f"{MEDIAN_SIZE} seconds", "1 second")
    percentile = F.percentile("value", F.lit(0.5)).alias("percentile")
    return frame.withWatermark("ts", "1 second").groupBy(window, "key").agg(percentile)


def _differences(ours: DataFrame, sparks: DataFrame) -> int:
    both = ours.select("window", "key", "middle").join(sparks, ["window", "key"], "full_outer")
    missing = F.col("middle").isNull() | F.col("percentile").isNull()
    return both.where(missing | (F.abs(F.col("middle") - F.col("percentile")) > 1e-12)).count()
