"""Updates of open windows: one changed key, 1 % of the keys and all of them, beside Spark's window() in update mode.

Windows of 60 seconds slide by one second, so every row changes 60 windows of its key. Each run begins with a batch that
opens all windows of all keys. The batches behind it have rows of the changed keys alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import EPOCH, Measured, stream, write_tables
from muntin.bench.updates_plot import draw
from muntin.spark.session import PARTITIONS, partitions

SIZE = 60
PER_SECOND = 30
"""Rows per changed key and second."""
TARGET = 10.0
DELAY = "1 second"
SECOND = 1_000_000
GROWTH = 1.5
"""How much more time one changed key may take with a hundred times as many open windows."""


@dataclass(frozen=True)
class Case:
    """So many open keys, of which some change in every batch; a batch covers some seconds."""

    keys: int
    changed: int
    seconds: int = 1

    @property
    def windows(self) -> int:
        """The windows of keys that a batch changes."""
        return self.changed * (SIZE + self.seconds - 1)

    @property
    def share(self) -> str:
        """How many of the keys change."""
        return "one" if self.changed == 1 else "all" if self.changed == self.keys else "1 %"


@dataclass(frozen=True)
class Scale:
    """The size of the run. Spark gets smaller batches or fewer keys where it would take too long, which is said beside
    the figures.
    """

    cases: tuple[tuple[Case, Case], ...]
    """Pairs: Muntin's and Spark's."""
    batches: int
    warm_up: int


def _cases(keys: int, sparks: int, seconds: int, sparks_seconds: int) -> tuple[tuple[Case, Case], ...]:
    """Where all keys change, a batch covers more seconds, so that its rows are worth measuring."""
    return (
        (Case(keys, 1), Case(sparks, 1)),
        (Case(keys, keys // 100), Case(sparks, sparks // 100)),
        (Case(keys, keys, seconds), Case(sparks, sparks, sparks_seconds)),
    )


FULL = Scale((*_cases(1_000, 1_000, 100, 30), *_cases(100_000, 10_000, 1, 1)), batches=3, warm_up=1)
QUICK = Scale((*_cases(200, 200, 3, 2), *_cases(1_000, 400, 1, 1)), batches=2, warm_up=1)
Runs: TypeAlias = Mapping[Case, Measured]


def run(out: Path, quick: bool = False) -> int:
    """Measure, show and write; 0 if every target is met."""
    title = "Updates of open windows, size/slide 60"
    return run_benchmark("updates", title, out, lambda running: _Bench(running, QUICK if quick else FULL).run())


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._plain = running.spark.newSession()  # with Spark's own state store
        self._plain.conf.set(PARTITIONS, str(partitions(running.spark)))
        self._scale = scale
        running.steps(2 * len(scale.cases))

    def run(self) -> tuple[list[Record], Draw]:
        ours, sparks = {}, {}
        for our_case, spark_case in self._scale.cases:
            with self._running.step(f"Muntin, {our_case.keys:,} keys, {our_case.share} changed"):
                # A pane per key and second: all that windows can need.
                folder = self._folder("ours", our_case, range(-SIZE, 0))
                ours[our_case] = self._measured(_ours(stream(self._running.spark, folder)), "append")
            with self._running.step(f"Spark, {spark_case.keys:,} keys, {spark_case.share} changed"):
                # One row per key opens as many windows.
                folder = self._folder("sparks", spark_case, range(-1, 0))
                sparks[spark_case] = self._measured(_sparks(stream(self._plain, folder)), "update")
        curves = {f"Muntin, {keys:,} keys": points for keys, points in _points(ours).items()}
        curves |= {f"Spark, {keys:,} keys": points for keys, points in _points(sparks).items()}
        return records(self._scale, ours, sparks), partial(draw, curves)

    def _folder(self, system: str, case: Case, filled: range) -> Path:
        folder = self._running.place / f"{system}-{case.keys}-{case.changed}"
        return write_tables(folder, tables(case, filled, self._scale.batches + self._scale.warm_up))

    def _measured(self, frame: DataFrame, mode: str) -> Measured:
        """Without the batch that opens the windows."""
        return self._running.measure(frame, self._scale.warm_up + 1, mode)


def tables(case: Case, filled: range, batches: int) -> Iterator[pa.Table]:
    """A batch with a row of every key in each second of `filled`, and batches with rows of the changed keys."""
    random = np.random.default_rng(case.keys)
    keys = np.tile(np.arange(case.keys), len(filled))
    yield _table(np.repeat(np.array(filled), case.keys) * SECOND + SECOND // 2, keys, random)
    for batch in range(batches):
        count = case.changed * PER_SECOND * case.seconds
        times = random.integers(0, case.seconds * SECOND, count) + batch * case.seconds * SECOND
        yield _table(times, random.permutation(np.arange(count) % case.changed), random)


def _table(times: np.ndarray, keys: np.ndarray, random: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(times + EPOCH).cast(pa.timestamp("us", tz="UTC")),
            "key": pa.array(keys.astype(np.int32)),
            "value": pa.array(random.random(len(keys))),
        }
    )


def _ours(frame: DataFrame) -> DataFrame:
    window = W.sliding(f"{SIZE} seconds", "1 second")
    query = muntin.over(frame, window, time="ts", watermark=DELAY, by="key")
    return query.agg(total=A.sum("value"), mean=A.mean("value")).emit("on_change").to_df()


def _sparks(frame: DataFrame) -> DataFrame:
    window = F.window("ts", f"{SIZE} seconds", "1 second")
    cells = [F.sum("value").alias("total"), F.avg("value").alias("mean")]
    return frame.withWatermark("ts", DELAY).groupBy(window, "key").agg(*cells)


def _points(runs: Runs) -> dict[int, dict[int, float]]:
    """The seconds of a batch by the number of changed windows, by the number of open keys."""
    points: dict[int, dict[int, float]] = {}
    for case, measured in runs.items():
        points.setdefault(case.keys, {})[case.windows] = median(measured.seconds)
    return points


def records(scale: Scale, ours: Runs, sparks: Runs) -> list[Record]:
    """The figures: rates beside Spark's, and how the time grows with what has changed and with what is open."""
    found = []
    for our_case, spark_case in scale.cases:
        measured, baseline = ours[our_case], sparks[spark_case]
        seconds = [median(each.seconds) for each in (measured, baseline)]
        fewer = f" of {spark_case.keys:,} keys" * (our_case.keys != spark_case.keys)
        found.append(
            Record(
                name=f"{our_case.keys:,} keys, {our_case.share} changed: Muntin against Spark in update mode",
                rows_per_s=measured.rows_per_s,
                baseline=baseline.rows_per_s,
                ratio=measured.rows_per_s / baseline.rows_per_s,
                target=TARGET if our_case.share == "all" else None,
                baseline_name="Spark",
                note=f"{our_case.windows:,} windows in {seconds[0]:.2f} s a batch; Spark {spark_case.windows:,} windows"
                f"{fewer} in {seconds[1]:.2f} s",
            )
        )
    few, many = sorted({case.keys for case in ours})
    one = {keys: median(ours[Case(keys, 1)].seconds) for keys in (few, many)}
    found.append(
        Record(
            name=f"one changed key: time of a batch with {many:,} keys against {few:,}",
            rows_per_s=None,
            baseline=None,
            ratio=one[many] / one[few],
            target=GROWTH,
            better="lower",
            note=f"{one[many]:.2f} s and {one[few]:.2f} s: {many * SIZE:,} and {few * SIZE:,} windows are open",
        )
    )
    return found
