"""Every window model against time windows with as many panes: rows/s by keys and by size/slide.

Time windows are aggregated before the shuffle; the other models need the tuples. This benchmark measures the cost of
that. The models are those of Mencagli et al., *Harnessing Sliding-Window Execution Semantics for Parallel Stream
Processing* (2018), sections 2.1 to 2.3. The fastest batch counts: otherwise, other load on the machine would make as
much of a difference as the models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import EPOCH, Load, Measured, stream, write_batches
from muntin.bench.windows_plot import draw

ROWS_PER_SECOND = 30_000
"""Rows per second of event time, over all keys."""
SIZE = 60
"""Seconds of a window, at every size/slide."""
GAP_IN_INTERVALS = 5
"""The gap of a session, in mean intervals between the tuples of a key. Sessions have about 150 tuples."""
PANES = 60
"""Size/slide where the number of keys varies."""
DELAY = "1 second"
TARGETS = {"count": 0.5, "session": 0.5, "slide by tuple": 0.5, "delta": 0.25}


@dataclass(frozen=True)
class Setting:
    """The number of keys, and size/slide."""

    keys: int
    ratio: int

    @property
    def tuples(self) -> int:
        """Tuples of a key in one slide."""
        return max(ROWS_PER_SECOND * SIZE // (self.keys * self.ratio), 1)

    @property
    def slide(self) -> str:
        return f"{SIZE * 1_000_000 // self.ratio} microseconds"


MODELS: Mapping[str, Callable[[Setting], W.Window]] = {
    "time": lambda s: W.sliding(f"{SIZE} seconds", s.slide),
    "count": lambda s: W.count(s.tuples * s.ratio, s.tuples),
    "session": lambda s: W.session(f"{GAP_IN_INTERVALS * 1_000_000 * s.keys // ROWS_PER_SECOND} microseconds"),
    "slide by tuple": lambda s: W.slide_by_tuple(f"{SIZE} seconds", s.tuples),
    "slide by time": lambda s: W.slide_by_time(s.tuples * s.ratio, s.slide),
    "delta": lambda s: W.delta("grown", SIZE, SIZE / s.ratio),
}


@dataclass(frozen=True)
class Scale:
    keys: tuple[int, ...]
    ratios: tuple[int, ...]
    """The size/slide to run with RATIO_KEYS keys, besides PANES."""
    seconds: int
    batches: int
    """The first one does not count."""


RATIO_KEYS = 100
FULL = Scale(keys=(1, 100, 10_000), ratios=(1, 600), seconds=130, batches=4)
QUICK = Scale(keys=(1, 100), ratios=(), seconds=40, batches=2)


def run(out: Path, quick: bool = False) -> int:
    """Measure, show and write; 0 if every target is met."""
    scale = QUICK if quick else FULL
    return run_benchmark("windows", "Every window model", out, lambda running: _run(running, scale))


def _run(running: Running, scale: Scale) -> tuple[list[Record], Draw]:
    sliding = [name for name in MODELS if name != "session"]  # sessions do not slide
    by_keys = [(name, Setting(keys, PANES)) for keys in scale.keys for name in MODELS]
    by_ratio = [(name, Setting(RATIO_KEYS, ratio)) for ratio in scale.ratios for name in sliding]
    running.steps(1 + len(scale.keys) + len(by_keys) + len(by_ratio))
    with running.step("warming up"):
        _write(running, "warm-up", Load(RATIO_KEYS, ROWS_PER_SECOND // RATIO_KEYS, seconds=10, batches=2))
        for name in ("time", "delta"):
            running.measure(_query(running, "warm-up", name, Setting(RATIO_KEYS, PANES)), warm_up=0)
    for keys in scale.keys:
        with running.step(f"making data, {keys:,} keys"):
            _write(running, f"keys-{keys}", Load(keys, ROWS_PER_SECOND // keys, scale.seconds, scale.batches))
    measured = {}
    for name, setting in [*by_keys, *by_ratio]:
        with running.step(f"{name}, {setting.keys:,} keys, size/slide {setting.ratio}"):
            frame = _query(running, f"keys-{setting.keys}", name, setting)
            measured[name, setting] = running.measure(frame, warm_up=1)
    records = [
        _beside_time(name, setting, measured) for name, setting in measured if name != "time" and setting.ratio == PANES
    ]
    if scale.ratios:
        records += [_growth(name, measured, min(scale.ratios), max(scale.ratios)) for name in sliding]
    rates = {case: result.fastest for case, result in measured.items()}
    curves_by_keys = {n: {s.keys: r for (m, s), r in rates.items() if m == n and s.ratio == PANES} for n in MODELS}
    curves_by_ratio = {
        n: dict(sorted((s.ratio, r) for (m, s), r in rates.items() if m == n and s.keys == RATIO_KEYS)) for n in sliding
    }
    return records, partial(draw, curves_by_keys, curves_by_ratio)


def _write(running: Running, name: str, load: Load) -> None:
    write_batches(running.place / name, load)


def _query(running: Running, data: str, model: str, setting: Setting) -> DataFrame:
    frame = stream(running.spark, running.place / data)
    if model == "delta":  # an odometer: it grows with time
        frame = frame.withColumn("grown", (F.unix_micros("ts") - F.lit(EPOCH)) / F.lit(1e6))
    query = muntin.over(frame, MODELS[model](setting), time="ts", watermark=DELAY, by="key")
    return query.agg(total=A.sum("value"), mean=A.mean("value")).to_df()


def _beside_time(name: str, setting: Setting, measured: Mapping[tuple[str, Setting], Measured]) -> Record:
    rate, base = measured[name, setting].fastest, measured["time", setting].fastest
    progress = muntin.progress(measured[name, setting].query)
    return Record(
        name=f"{name}, {setting.keys:,} key{'s' * (setting.keys > 1)}: beside time windows",
        rows_per_s=rate,
        baseline=base,
        ratio=rate / base,
        target=TARGETS.get(name),
        baseline_name="time windows",
        note=f"{progress.results:,} results; {progress.state_bytes:,} bytes of state for {progress.panes:,} leaves and "
        f"{progress.tuples:,} waiting tuples",
    )


def _growth(name: str, measured: Mapping[tuple[str, Setting], Measured], first: int, last: int) -> Record:
    coarse, fine = (measured[name, Setting(RATIO_KEYS, ratio)].fastest for ratio in (first, last))
    return Record(
        name=f"{name}, {RATIO_KEYS} keys: growth of time from size/slide {first} to {last}",
        rows_per_s=fine,
        baseline=coarse,
        ratio=coarse / fine,
        target=None,
        better="lower",
        baseline_name=f"at {first}",
    )
