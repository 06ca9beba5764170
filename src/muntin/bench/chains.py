"""A chain of two queries of Muntin beside the first of them alone.

The first query has a sum per key for windows of 60 seconds that slide by one. The second has, per key and minute, the
largest of these sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from pyspark.sql import DataFrame

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import Load, Measured, stream, write_batches

TARGET = 1.6
DELAY = "1 second"
INK = "#0b6e4f"


@dataclass(frozen=True)
class Scale:
    load: Load
    warm_up: int
    rounds: int


FULL = Scale(Load(keys=1_000, per_second=30, seconds=60, batches=6), warm_up=2, rounds=2)
QUICK = Scale(Load(keys=100, per_second=10, seconds=30, batches=3), warm_up=1, rounds=1)


def run(out: Path, quick: bool = False) -> int:
    """Measure, show and write; 0 if the target is met."""
    return run_benchmark(
        "chains", "A chain of two queries", out, lambda running: _measured(running, QUICK if quick else FULL)
    )


def _measured(running: Running, scale: Scale) -> tuple[list[Record], Draw]:
    folder = running.place / "rows"
    write_batches(folder, scale.load)
    queries = {"the first alone": first, "the chain": chained}
    running.steps(len(queries) * scale.rounds)
    runs: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(scale.rounds):  # in turn, so that a slow spell of the machine is of both
        for name, query in queries.items():
            with running.step(name):
                runs[name] += batches(running.measure(query(stream(running.spark, folder)), scale.warm_up))
    seconds = {name: median(times) for name, times in runs.items()}
    return [record(scale.load, seconds)], partial(draw, seconds)


def batches(measured: Measured) -> list[float]:
    """The seconds of batches that read rows. In others, only results of the first query reach the second."""
    reports = (report for report in measured.reports if report["numInputRows"])
    return [report["durationMs"]["triggerExecution"] / 1000 for report in reports]


def first(rows: DataFrame) -> DataFrame:
    window = W.sliding("60 seconds", "1 second")
    return (
        muntin.over(rows, window, time="ts", watermark=DELAY, by="key", name="first").agg(total=A.sum("value")).to_df()
    )


def chained(rows: DataFrame) -> DataFrame:
    query = muntin.over(first(rows), W.tumbling("60 seconds"), time="window_time", by="key", name="second")
    return query.agg(largest=A.max("total")).to_df()


def record(load: Load, seconds: Mapping[str, float]) -> Record:
    """The time of the chain against that of its first query."""
    alone, both = seconds["the first alone"], seconds["the chain"]
    return Record(
        name=f"{load.keys:,} keys: time of a batch of the chain against its first query",
        rows_per_s=load.rows / both,
        baseline=load.rows / alone,
        ratio=both / alone,
        target=TARGET,
        better="lower",
        baseline_name="the first alone",
        note=f"{load.rows:,} rows and {load.keys * load.seconds:,} windows a batch: {both:.2f} s and {alone:.2f} s",
    )


def draw(seconds: Mapping[str, float], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 2.2), layout="constrained")
    bars = axes.barh(list(seconds), list(seconds.values()), color=INK)
    axes.bar_label(bars, labels=[f" {value:.2f} s" for value in seconds.values()], fontsize=8)
    axes.set_title("A batch of two queries in a chain, and of the first", loc="left", weight="bold")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xticks([])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
