"""What shedding saves end to end, by what is shed and where.

A table of rows with a few columns, as a DataFrame, is aggregated over sliding windows: once with aggregates that panes
answer, and once with a median among them. The time without shedding is compared with that of shedding what needs rows
(the default), of shedding for all aggregates as in CoD, by concept and uniformly, and of shedding at the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final, TypeAlias

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pyarrow as pa
from matplotlib import pyplot as plt
from pyspark.sql import DataFrame

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.data_sets import MINUTE, TIME
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import EPOCH, write_tables

COLUMNS = tuple("abcdef")
KEYS = 1000
MINUTES = 60
RATES = (0.9, 0.98)
NONE = "no shedding"
WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "incremental=False": {"incremental": False},
    "incremental=False, uniform": {"incremental": False, "method": "uniform"},
    'at="source"': {"method": "uniform", "at": "source"},
}
PANES, ROWS = "counts, sums and means", "the same and a median"
Case: TypeAlias = tuple[str, str, float]
"""What is computed, how it is shed, and the rate."""


@dataclass(frozen=True)
class Scale:
    rows: int
    rounds: int
    """How often all ways run in turn, after one round that does not count."""


FULL = Scale(rows=1_500_000, rounds=5)
QUICK = Scale(rows=50_000, rounds=1)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write."""
    scale = QUICK if quick else FULL
    body = partial(_body, scale=scale)
    return run_benchmark("shed_savings", "What shedding saves", out, body)


def cases() -> list[Case]:
    shed = [(what, way, rate) for what in (PANES, ROWS) for way in WAYS for rate in RATES]
    return [(PANES, NONE, 0.0), (ROWS, NONE, 0.0), *shed]


def _body(running: Running, scale: Scale) -> tuple[list[Record], Draw]:
    running.steps(1 + len(cases()) * (1 + scale.rounds))
    with running.step("making rows"):
        folder = write_tables(running.place / "rows", [made(scale.rows)])
    frame = running.spark.read.parquet(str(folder))
    seconds: dict[Case, list[float]] = {case: [] for case in cases()}
    for number in range(1 + scale.rounds):
        for case in cases():
            what, way, rate = case
            with running.step(f"{what}: {way} at {rate:.0%}"):
                begin = perf_counter()
                query(frame, case).to_df().write.format("noop").mode("overwrite").save()
                if number:
                    seconds[case].append(perf_counter() - begin)
    times = {case: median(measured) for case, measured in seconds.items()}
    return records(scale.rows, times), partial(draw, times)


def made(rows: int) -> pa.Table:
    random = np.random.default_rng(11)
    times = EPOCH + np.sort(random.integers(0, MINUTES * MINUTE, rows))
    columns = {"ts": pa.array(times).cast(TIME), "key": pa.array(random.integers(0, KEYS, rows).astype(np.int32))}
    return pa.table(columns | {name: pa.array(random.lognormal(2, 1, rows)) for name in COLUMNS})


def query(frame: DataFrame, case: Case) -> muntin.Query:
    what, way, rate = case
    base = muntin.over(frame, W.sliding("15 minutes", "5 minutes"), time="ts", by="key")
    base = base.agg(rows=A.count(), **{name: A.sum(name) for name in COLUMNS[:3]})
    base = base.agg(**{name: A.mean(name) for name in COLUMNS[3:]})
    base = base.agg(middle=A.median(COLUMNS[0])) if what == ROWS else base
    return base if way == NONE else base.shed(rate=rate, **WAYS[way])


def records(rows: int, times: Mapping[Case, float]) -> list[Record]:
    """The time of every way relative to no shedding."""
    return [
        Record(
            name=f"{what}: {way}" + (f" at {rate:.0%}" if rate else ""),
            rows_per_s=rows / seconds,
            baseline=rows / times[what, NONE, 0.0],
            ratio=seconds / times[what, NONE, 0.0],
            target=None,
            better="lower",
            baseline_name=NONE,
            note=f"{seconds:.2f} s",
        )
        for (what, way, rate), seconds in times.items()
    ]


def draw(times: Mapping[Case, float], path: Path) -> None:
    figure, panels = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained", sharey=True)
    for panel, what in zip(panels, (PANES, ROWS), strict=True):
        for shift, rate, ink in ((-0.2, RATES[0], "#c8553d"), (0.2, RATES[1], "#0b6e4f")):
            shares = [times[what, way, rate] / times[what, NONE, 0.0] for way in WAYS]
            bars = panel.barh(np.arange(len(WAYS)) - shift, shares, 0.38, color=ink, label=f"{rate:.0%} shed")
            panel.bar_label(bars, fmt="%.2f", padding=3)
        panel.axvline(1, color="#333333", linewidth=1)
        panel.set_title(what, loc="left")
        panel.set_xlabel("time, relative to no shedding")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(np.arange(len(WAYS)), list(WAYS))
    panels[0].invert_yaxis()
    panels[1].legend(frameon=False, loc="lower right")
    figure.suptitle("What shedding saves, end to end on Spark", weight="bold", ha="left", x=0.01)
    figure.savefig(path, dpi=110)
    plt.close(figure)
