"""Small batches: how long 50,000 rows take, and how much of it an operator that does nothing would take, too.

The systems take the same batches in turn, several rounds of each: Muntin, with a shard per core and with one; Spark's
`window()`; tiles by hand, as two chained aggregations; a stateful Python operator that does nothing, in Python workers
of its own and in those of Muntin, which do not collect the garbage of modules after every task; and rows that are only
passed to Python. All run in Spark's defaults but for the settings of `muntin.configure`, which Spark's own operators do
not get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

import muntin
from muntin.bench.batches_plot import draw
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.small import KEYS, System, differences, in_own_workers, no_op, ours, pass_through, tiles, window
from muntin.bench.steady import Load, Measured, stream, write_batches
from muntin.spark.session import PARTITIONS, partitions

PER_SECOND = 50
PARTS = {
    "latestOffset": "source",
    "getBatch": "source",
    "walCommit": "offset log",
    "queryPlanning": "planning",
    "addBatch": "the batch itself",
    "commitBatch": "commit log",
    "commitOffsets": "commit log",
}
"""Spark's names of the parts of a batch, and ours."""
OURS, ONE_SHARD, WINDOW, TILES, NO_OP, NO_OP_HERE, THROUGH = (
    "Muntin",
    "Muntin, one shard",
    "Spark window()",
    "chained tiles",
    "stateful operator that does nothing",
    "the same in Muntin's workers",
    "rows passed through",
)
TARGETS = {NO_OP: 1.2, WINDOW: 0.6}


@dataclass(frozen=True)
class Scale:
    rounds: int
    batches: int
    warm_up: int
    """Batches of each run that do not count."""


FULL = Scale(rounds=5, batches=10, warm_up=3)
QUICK = Scale(rounds=1, batches=4, warm_up=2)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every target is met."""
    scale = QUICK if quick else FULL
    return run_benchmark(
        "batches",
        "Batches of 50,000 rows, 1,000 keys, sum, 60 s by 1 s",
        out,
        lambda running: _Bench(running, scale).run(),
    )


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._scale = scale
        plain = running.spark.newSession()  # Spark's own operators run with Spark's settings and state store
        plain.conf.set(PARTITIONS, str(partitions(running.spark)))
        spark, one_shard = running.spark, muntin.configure(running.spark.newSession(), shards=1)
        self._systems: dict[str, tuple[SparkSession, System]] = {
            OURS: (spark, ours),
            NO_OP: (spark, in_own_workers(no_op)),
            NO_OP_HERE: (spark, no_op),
            ONE_SHARD: (one_shard, ours),
            WINDOW: (plain, window),
            TILES: (plain, tiles),
            THROUGH: (spark, in_own_workers(pass_through)),
        }
        running.steps(3 + (scale.rounds + 1) * len(self._systems))

    def run(self) -> tuple[list[Record], Draw]:
        folder = self._running.place / "rows"
        with self._running.step("making data"):
            write_batches(folder, Load(KEYS, PER_SECOND, seconds=1, batches=self._scale.batches))
        runs: dict[str, list[Measured]] = {name: [] for name in self._systems}
        for name in self._systems:
            self._measured(name, folder, "warming up, ")
        for number in range(self._scale.rounds):
            for name in self._systems:
                runs[name].append(self._measured(name, folder, f"round {number + 1} of {self._scale.rounds}, "))
        unequal = {name: self._compare(name, folder) for name in (WINDOW, TILES)}
        return _records(runs, unequal), partial(draw, {name: parts(measured) for name, measured in runs.items()})

    def _measured(self, name: str, folder: Path, turn: str) -> Measured:
        spark, system = self._systems[name]
        with self._running.step(turn + name):
            return self._running.measure(system(stream(spark, folder)), self._scale.warm_up)

    def _compare(self, name: str, folder: Path) -> int:
        """The results over a table of the rows that differ from Muntin's."""
        with self._running.step(f"comparing results with {name}"):
            table = self._running.spark.read.parquet(str(folder)).where("key < 20")
            return differences(ours(table), self._systems[name][1](table))


def parts(runs: Sequence[Measured]) -> dict[str, float]:
    """Milliseconds of each part of the median batch."""
    reports = [report["durationMs"] for measured in runs for report in measured.reports]
    names = dict.fromkeys(PARTS.values())
    return {
        part: median(sum(report.get(key, 0) for key, of in PARTS.items() if of == part) for report in reports)
        for part in names
    }


def _seconds(runs: Sequence[Measured]) -> float:
    return median(median(measured.seconds) for measured in runs)


def _records(runs: Mapping[str, Sequence[Measured]], unequal: Mapping[str, int]) -> list[Record]:
    rows = median(runs[OURS][0].rows)
    mine = _seconds(runs[OURS])
    records = []
    for name, measured in runs.items():
        by_round = [
            median(own.seconds) / median(other.seconds) for own, other in zip(runs[OURS], measured, strict=True)
        ]
        shares = ", ".join(f"{part} {value:,.0f}" for part, value in parts(measured).items())
        records.append(
            Record(
                name="Muntin" if name == OURS else f"Muntin's time against: {name}",
                rows_per_s=rows / mine,
                baseline=rows / _seconds(measured),
                ratio=median(by_round),
                target=TARGETS.get(name),
                better="lower",
                baseline_name=name,
                note=f"{_seconds(measured) * 1e3:,.0f} ms a batch (median): {shares}"
                + ("" if name == OURS else "; ratio by round " + ", ".join(f"{ratio:.2f}" for ratio in by_round)),
            )
        )
    records += [
        Record(f"results that differ from: {name}", None, None, float(count), 0.0, better="lower")
        for name, count in unequal.items()
    ]
    return records
