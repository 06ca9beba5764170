"""The resident memory of Spark's Python workers over time, with compression and without.

The stops query over whole reports of Linear Road, in windows of twelve hours by three. So most batches close no window,
and what the workers have in memory is what they store. In one shard: with more, Spark moves shards between workers, and
a worker that gets one reads its chunks only when a window needs them. Freed memory goes back to the system at once
(`MUNTIN_KEEP_FREED_MEMORY=off`): otherwise the resident memory would be that of the largest batch so far.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from pyspark.sql import DataFrame

import muntin
from muntin import windows as W
from muntin.bench import linear_road as lr
from muntin.bench.compress_memory_plot import draw
from muntin.bench.compress_runs import DELAYS, Run, run_of, steady, write_road
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import stream

SIZE, ADVANCE = "12 hours", "3 hours"
HALF_HOUR, TEN_MINUTES = 1800, 600
"""Seconds of event time in a batch: before the windows are full, and after."""
WARM_UP = 12 * 3600 // HALF_HOUR + 1
"""Batches after which the windows are full."""
KEEP = "MUNTIN_KEEP_FREED_MEMORY"
NEVER, DELAY = "∞", "1 min"
LESS = 0.9
"""The target: the resident memory relative to that without compression."""


@dataclass(frozen=True)
class Scale:
    joins: float
    """Vehicles that join per second. Each makes 37 reports, and is in windows for twelve hours."""
    batches: int
    """Measured ones, of ten minutes each."""


FULL, QUICK = Scale(10.0, 18), Scale(0.2, 2)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every target is met."""
    scale, kept = QUICK if quick else FULL, os.environ.get(KEEP)
    os.environ[KEEP] = "off"  # the workers inherit it
    title = "Resident memory of the workers"
    try:
        target = None if quick else LESS
        return run_benchmark("compress_memory", title, out, lambda running: measured(running, scale, target))
    finally:
        os.environ.pop(KEEP) if kept is None else os.environ.update({KEEP: kept})


def measured(running: Running, scale: Scale, target: float | None) -> tuple[list[Record], Draw]:
    """Both runs, one after the other over the same files."""
    running.steps(3)
    muntin.configure(running.spark, shards=1)
    folder, lengths = running.place / "reports", [HALF_HOUR] * WARM_UP + [TEN_MINUTES] * scale.batches
    with running.step("making data"):
        write_road(folder, steady(scale.joins, sum(lengths)), lengths)
    runs = {}
    for delay in (NEVER, DELAY):
        with running.step(f"stops, D = {delay}"):
            query = stops(stream(running.spark, folder, lr.SCHEMA)).compress(after=DELAYS[delay])
            runs[delay] = run_of(query, running.place / "scratch", WARM_UP)
    return records_of(runs[NEVER], runs[DELAY], target), partial(
        draw, {name: run.samples for name, run in runs.items()}
    )


def stops(frame: DataFrame) -> muntin.Query:
    """The stops of each vehicle, over whole reports, as A_C stores them."""
    window = W.sliding(SIZE, ADVANCE)
    query = muntin.over(frame, window, time="time", watermark=lr.WATERMARK, by="vehicle")
    return query.apply(lr.count_stops, "stops long")


def records_of(plain: Run, compressed: Run, target: float | None) -> list[Record]:
    """The resident memory of all workers together: typically, and at most."""
    chunks = [f"{run.last.resident_bytes / 1e6:,.0f}" for run in (compressed, plain)]
    return [
        Record(
            name=f"resident memory of the workers, D = {DELAY}: {name}",
            rows_per_s=None,
            baseline=base / 1e6,
            ratio=value / base,
            target=wanted,
            better="lower",
            baseline_name="MB at ∞",
            note=f"{value / 1e6:,.0f} MB, of which chunks {chunks[0]} MB, {chunks[1]} MB at ∞; "
            f"{plain.last.chunk_tuples:,} reports stored; samples: {len(compressed.samples)}, {len(plain.samples)}",
        )
        for name, value, base, wanted in (
            ("median over time", median(compressed.samples), median(plain.samples), target),
            ("lower quartile, mostly between closings", _low(compressed), _low(plain), None),
            ("peak", compressed.memory, plain.memory, None),
        )
    ]


def _low(run: Run) -> float:
    return float(np.quantile(run.samples, 0.25))
