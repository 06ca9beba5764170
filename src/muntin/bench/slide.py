"""Sliding sum and mean over 1,000 keys: the cost of sliding finely (SPRINGALD, section VI).

One run measures Muntin, Spark's `window()` and a pass-through of the same rows to Python, each in steady state. Against
Spark, the median batch counts. Against the pass-through, and between slides, the differences are smaller than the noise
of the machine. There the fastest batch of each run counts, and every run of Muntin is between two of the pass-through.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from statistics import fmean

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.processes import worker_peaks
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.slide_plot import draw
from muntin.bench.steady import Load, Measured, stream, write_batches, write_past
from muntin.query.scan import Scan
from muntin.spark.session import PARTITIONS, partitions

KEYS = 1_000
PER_SECOND = 30
"""Rows per key and slide: 30,000 rows per second of event time."""
TARGETS = {60: 15.0, 600: 250.0}
COMPARED_KEYS = 50
DELAY = "1 second"


@dataclass(frozen=True)
class Scale:
    """The size of the run.

    Spark gets smaller batches: half of Muntin's at size/slide 60, and far smaller ones at 600, where it would otherwise
    take hours. That is to Spark's disadvantage: both are faster with larger batches, and a batch costs Muntin about a
    second besides its rows. The quick run also gives Spark few keys at 600: its figures only show that it works.
    """

    ratios: tuple[int, ...]
    ours: Load
    sparks: dict[int, Load]
    rounds: int
    """How often Muntin and the pass-through run in turn."""
    warm_up: int
    """Batches of each run that do not count."""
    compared: tuple[int, ...]


FULL = Scale(
    ratios=(1, 10, 60, 600, 3600),
    ours=Load(KEYS, PER_SECOND, seconds=1040, batches=3),
    sparks={
        1: Load(KEYS, PER_SECOND, seconds=100, batches=3),
        10: Load(KEYS, PER_SECOND, seconds=30, batches=3),
        60: Load(KEYS, PER_SECOND, seconds=520, batches=1),
        600: Load(KEYS, PER_SECOND, seconds=10, batches=2),
    },
    rounds=2,
    warm_up=1,
    compared=(1, 10, 60, 600),
)
QUICK = Scale(
    ratios=(1, 60, 600, 3600),
    ours=Load(KEYS, PER_SECOND, seconds=90, batches=2),
    sparks={
        60: Load(KEYS, PER_SECOND, seconds=5, batches=2),
        600: Load(KEYS // 50, PER_SECOND, seconds=20, batches=1),
    },
    rounds=1,
    warm_up=0,
    compared=(60,),
)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every target is met."""
    scale = QUICK if quick else FULL
    return run_benchmark("slide", "Sliding sum and mean, 1,000 keys", out, lambda running: _Bench(running, scale).run())


@dataclass(frozen=True)
class Beside:
    """A run of Muntin, and the runs of the pass-through before and after it."""

    ours: Measured
    before: Measured
    after: Measured

    @property
    def through(self) -> float:
        return (self.before.fastest + self.after.fastest) / 2

    @property
    def ratio(self) -> float:
        """Muntin's time divided by that of the pass-through."""
        return self.through / self.ours.fastest


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._spark = running.spark
        # Spark's windows run with Spark's settings, including its state store.
        self._plain = running.spark.newSession()
        self._plain.conf.set(PARTITIONS, str(partitions(running.spark)))
        self._scale = scale
        self._place = running.place
        running.steps(3 + 2 * scale.rounds * len(scale.ratios) + len(scale.sparks) + len(scale.compared))

    def run(self) -> tuple[list[Record], Draw]:
        main = self._place / "main"
        with self._running.step("making data"):
            write_batches(main, self._scale.ours)
        with self._running.step("warming up"):
            self._warm_up(main)
        beside = self._beside(main)
        ours = {ratio: _all_batches([run.ours for run in runs]) for ratio, runs in beside.items()}
        peaks = worker_peaks()
        sparks = {ratio: self._sparks(ratio, load) for ratio, load in self._scale.sparks.items()}
        differences = {ratio: self._compare(ratio) for ratio in self._scale.compared}
        curves = {
            "Muntin": {ratio: measured.rows_per_s for ratio, measured in ours.items()},
            "Spark window()": {ratio: measured.rows_per_s for ratio, measured in sparks.items()},
            "rows to Python, nothing else": {
                ratio: fmean(run.through for run in runs) for ratio, runs in beside.items()
            },
        }
        return _records(beside, ours, sparks, differences, peaks), partial(draw, curves)

    def _warm_up(self, main: Path) -> None:
        """Run each system once, so that no measured run pays for starting the JVM and the workers.

        Muntin's run is as long as the measured ones, since the JVM needs a few large batches to compile its code.
        """
        folder = self._place / "warm-up"
        write_batches(folder, Load(KEYS, PER_SECOND, seconds=10, batches=2))
        frame = stream(self._spark, main)
        for system in (
            _pass_through(frame),
            our_query(frame, 10).to_df(),
            sparks_query(stream(self._plain, folder), 1),
        ):
            self._running.measure(system, warm_up=0)

    def _beside(self, main: Path) -> dict[int, list[Beside]]:
        """Run a pass-through before and after every run of Muntin, so that neither has the quieter machine."""
        beside: dict[int, list[Beside]] = {ratio: [] for ratio in self._scale.ratios}
        before = self._through(main)
        for ratio in self._scale.ratios * self._scale.rounds:
            ours, after = self._ours(main, ratio), self._through(main)
            beside[ratio].append(Beside(ours, before, after))
            before = after
        return beside

    def _through(self, main: Path) -> Measured:
        with self._running.step("pass-through"):
            return self._running.measure(_pass_through(stream(self._spark, main)), self._scale.warm_up)

    def _ours(self, main: Path, ratio: int) -> Measured:
        """The same batches for every ratio, after one batch of past rows that fills the windows."""
        folder = self._place / f"ours-{ratio}"
        if not folder.exists():
            folder.mkdir()
            write_past(folder, KEYS, ratio)
            for file in sorted(main.iterdir()):
                os.link(file, folder / file.name)
        with self._running.step(f"Muntin, size/slide {ratio}"):
            # The batch of past rows does not count.
            query = our_query(stream(self._spark, folder), ratio)
            return self._running.measure(query.to_df(), self._scale.warm_up + 1)

    def _sparks(self, ratio: int, load: Load) -> Measured:
        folder = self._place / f"spark-{ratio}"
        with self._running.step(f"Spark window(), size/slide {ratio}"):
            write_batches(folder, load)
            # A batch of minutes needs no warm-up.
            warm_up = min(self._scale.warm_up, load.batches - 1)
            return self._running.measure(sparks_query(stream(self._plain, folder), ratio), warm_up)

    def _compare(self, ratio: int) -> int:
        """The number of results that differ, over a table of one batch and the keys below COMPARED_KEYS."""
        folder = self._place / f"compare-{ratio}"
        with self._running.step(f"comparing results, size/slide {ratio}"):
            write_batches(folder, Load(KEYS, PER_SECOND, seconds=10, batches=1), seed=ratio)
            table = self._spark.read.parquet(str(folder)).where(f"key < {COMPARED_KEYS}")
            return count_differences(our_query(table, ratio).to_df(), sparks_query(table, ratio))


def our_query(frame: DataFrame | Scan, ratio: int) -> muntin.Query:
    window = W.sliding(f"{ratio} seconds", "1 second")
    query = muntin.over(frame, window, time="ts", watermark=DELAY, by="key")
    return query.agg(total=A.sum("value"), mean=A.mean("value"))


def sparks_query(frame: DataFrame, ratio: int) -> DataFrame:
    window = F.window("ts", f"{ratio} seconds", "1 second")
    cells = [F.sum("value").alias("total"), F.avg("value").alias("mean")]
    return frame.withWatermark("ts", DELAY).groupBy(window, "key").agg(*cells)


def _pass_through(frame: DataFrame) -> DataFrame:
    """Send the rows to Python, and return only their count: the limit of any operator over a DataFrame."""

    def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = sum(batch.num_rows for batch in batches)
        yield pa.record_batch([pa.array([count])], names=["count"])

    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = count_rows
    return frame.mapInArrow(function, "count long")


def count_differences(ours: DataFrame, sparks: DataFrame) -> int:
    left = ours.select("window", "key", F.col("total").alias("a"), F.col("mean").alias("b"))
    both = left.join(sparks, ["window", "key"], "full_outer")
    missing = F.col("a").isNull() | F.col("total").isNull()
    unequal = (F.abs(F.col("a") - F.col("total")) > 1e-6) | (F.abs(F.col("b") - F.col("mean")) > 1e-9)
    return both.where(missing | unequal).count()


def _all_batches(runs: Sequence[Measured]) -> Measured:
    return reduce(operator.add, runs)


def _records(
    beside: Mapping[int, Sequence[Beside]],
    ours: dict[int, Measured],
    sparks: dict[int, Measured],
    differences: dict[int, int],
    peaks: list[int],
) -> list[Record]:
    records = [
        Record(
            name=f"size/slide {ratio}: Muntin against Spark's window()",
            rows_per_s=ours[ratio].rows_per_s,
            baseline=sparks[ratio].rows_per_s,
            ratio=ours[ratio].rows_per_s / sparks[ratio].rows_per_s,
            target=TARGETS.get(ratio),
            baseline_name="Spark",
            note="" if not differences.get(ratio) else f"{differences[ratio]} results differ",
        )
        for ratio in sparks
    ]
    records += [
        Record(
            name=f"size/slide {ratio}: time against a pass-through",
            rows_per_s=fmean(run.ours.fastest for run in runs),
            baseline=fmean(run.through for run in runs),
            ratio=fmean(run.ratio for run in runs),
            target=1.3,
            better="lower",
            baseline_name="pass-through",
            note="by run " + ", ".join(f"{run.ratio:.2f}" for run in runs),
        )
        for ratio, runs in beside.items()
    ]
    records.append(_growth(beside))
    records += [
        Record(
            name=f"size/slide {ratio}: results that differ from Spark's",
            rows_per_s=None,
            baseline=None,
            ratio=float(count),
            target=0.0,
            better="lower",
        )
        for ratio, count in differences.items()
    ]
    return records + _memory_records(ours, sparks, peaks)


def _growth(beside: Mapping[int, Sequence[Beside]]) -> Record:
    """The runs are minutes apart, and the machine's speed changes. So each is compared with its pass-through."""
    first, last = min(beside), max(beside)
    by_through = {ratio: fmean(run.ratio for run in beside[ratio]) for ratio in (first, last)}
    fastest = {ratio: max(run.ours.fastest for run in beside[ratio]) for ratio in (first, last)}
    return Record(
        name=f"growth of time from size/slide {first} to {last}",
        rows_per_s=fastest[last],
        baseline=fastest[first],
        ratio=by_through[last] / by_through[first],
        target=1.3,
        better="lower",
        baseline_name=f"at {first}",
        note=f"each by the pass-through beside it; by the fastest batches alone {fastest[first] / fastest[last]:.2f}",
    )


def _memory_records(ours: dict[int, Measured], sparks: dict[int, Measured], peaks: list[int]) -> list[Record]:
    records = []
    for ratio in sparks:
        state = muntin.progress(ours[ratio].query)
        reports = [report for report in sparks[ratio].query.recentProgress if report["numInputRows"] > 0]
        state_operator = reports[-1]["stateOperators"][0]
        spark_bytes = state_operator["memoryUsedBytes"]
        records.append(
            Record(
                name=f"size/slide {ratio}: state, bytes",
                rows_per_s=None,
                baseline=spark_bytes,
                ratio=state.state_bytes / spark_bytes if spark_bytes else None,
                target=None,
                better="lower",
                baseline_name="bytes in Spark's",
                note=f"{state.state_bytes:,} bytes for {state.panes:,} (key, pane): "
                f"{state.state_bytes / max(state.panes, 1):.1f} bytes each; Spark keeps "
                f"{state_operator['numRowsTotal']:,} (key, window) rows in {spark_bytes:,} bytes",
            )
        )
    largest = max(sparks)
    records.append(
        Record(
            name="peak memory of the Python workers, bytes",
            rows_per_s=None,
            baseline=records[-1].baseline,
            ratio=None if not records[-1].baseline else sum(peaks) / records[-1].baseline,
            target=None,
            better="lower",
            baseline_name=f"bytes of Spark's state at {largest}",
            note=f"{sum(peaks) / 1e6:,.0f} MB in {len(peaks)} workers together, after size/slide {max(ours)}",
        )
    )
    return records
