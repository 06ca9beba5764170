"""A sliding sum over a table of Parquet files: Muntin beside Spark, Polars and DuckDB.

All systems read the same files and run in turn, several rounds; the median of each counts. Those on Spark write their
results nowhere; Polars and DuckDB leave theirs in memory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.tables_data import KEYS, Scale, write
from muntin.bench.tables_plot import draw
from muntin.errors import MuntinError
from muntin.spark.session import PARTITIONS, partitions

if TYPE_CHECKING:
    from muntin.bench.tables_systems import System

FULL = Scale(rows=20_000_000, rounds=5)
QUICK = Scale(rows=1_000_000, rounds=2)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every target is met."""
    missing = [module for module in ("polars", "duckdb") if find_spec(module) is None]
    if missing:
        raise MuntinError(f"this benchmark compares with {' and '.join(missing)}: pip install {' '.join(missing)}")
    scale = QUICK if quick else FULL
    title = f"Sliding sum of {scale.rows:,} rows of Parquet, {KEYS:,} keys, 60 s by 1 s"
    return run_benchmark("tables", title, out, lambda running: _measured(running, scale))


def _measured(running: Running, scale: Scale) -> tuple[list[Record], Draw]:
    from muntin.bench.tables_systems import systems

    folder = running.place / "table"
    plain = running.spark.newSession()  # Spark's own settings, with as many partitions as Muntin has
    plain.conf.set(PARTITIONS, str(partitions(running.spark)))
    all_systems = systems(running.spark, plain, folder, scale)
    running.steps(1 + (1 + scale.rounds) * len(all_systems))
    with running.step("making data"):
        write(folder, scale)
    differing = _compared(running, all_systems)
    seconds: dict[str, list[float]] = {system.name: [] for system in all_systems}
    for number in range(scale.rounds):
        for system in all_systems:
            with running.step(f"round {number + 1}: {system.name}"):
                if system.rounds is None or number < system.rounds:
                    begin = time.perf_counter()
                    system.run()
                    seconds[system.name].append(time.perf_counter() - begin)
    medians = {name: median(of_system) for name, of_system in seconds.items()}
    return records(scale.rows, seconds, differing), partial(draw, medians, scale.rows)


def _compared(running: Running, all_systems: list[System]) -> dict[str, int]:
    """How many answers of each system differ from those of the first. This run also warms all systems up."""
    from muntin.bench.tables_systems import differences

    differing, expected = {}, None
    for system in all_systems:
        with running.step(f"comparing results: {system.name}"):
            if system.answer is None:
                system.run()
                continue
            answers = system.answer()
            differing[system.name] = 0 if expected is None else differences(expected, answers)
            expected = answers if expected is None else expected
    return differing


def records(rows: int, seconds: Mapping[str, list[float]], differing: Mapping[str, int]) -> list[Record]:
    from muntin.bench.tables_systems import DUCKDB, FRAME, GROUPED, POLARS, SCAN

    taken = {name: median(of_system) for name, of_system in seconds.items()}
    found = [
        Record(
            name=f"{ours}: time against {other}",
            rows_per_s=rows / taken[ours],
            baseline=rows / taken[other],
            ratio=taken[ours] / taken[other],
            target=target if rows >= FULL.rows else None,  # a few rows take as long as it takes to start
            better="lower",
            baseline_name="rows/s",
            note=f"{taken[ours]:.2f} s and {taken[other]:.2f} s",
        )
        for ours, other, target in ((SCAN, POLARS, 1.6), (SCAN, DUCKDB, 1.0), (FRAME, GROUPED, 1.5))
    ]
    found += [
        Record(
            name=name,
            rows_per_s=rows / taken[name],
            baseline=None,
            ratio=None,
            target=None,
            note="by round " + ", ".join(f"{value:.2f} s" for value in of_system),
        )
        for name, of_system in seconds.items()
    ]
    found += [
        Record(
            name=f"{name}: results that differ from Muntin's",
            rows_per_s=None,
            baseline=None,
            ratio=float(count),
            target=0.0,
            better="lower",
        )
        for name, count in list(differing.items())[1:]
    ]
    return found
