"""The stops of Linear Road under tunable compression: paced rates × D with 99 % intervals (Gulisano 2024, figures 1–4).

Windows of three hours advance by a minute, per vehicle, and are full before the first measured one. It runs without
Spark, in this process; `compress_medians` and `compress_memory` run on Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.progress import track

from muntin.bench.compress_grid import WARM_UP, Cell, filled, half_width, minutes_of, paced
from muntin.bench.compress_plot import draw
from muntin.bench.compress_runs import DELAYS
from muntin.bench.report import Record, show, write
from muntin.durations import microseconds

NEVER = "∞"
THROUGHPUT = {"1 min": 0.85}
"""Targets by D at the highest rate: the share of the throughput without compression. The paper has about 0.85."""
SMALLER = {"1 min": 3.0}
"""Targets by D: the uncompressed state divided by the compressed one. The paper has 3."""


@dataclass(frozen=True)
class Scale:
    joins: float
    """Vehicles that join per second of event time. Each makes 37 reports, and is in windows for three hours."""
    minutes: int
    """Counted minutes of event time per run, each of which closes windows."""
    rates: tuple[int, ...]
    """Reports per second of the clock. The last one is more than the machine can process."""
    delays: tuple[str, ...]
    repetitions: int


FULL = Scale(0.2, 10, (1_000, 2_000, 3_000, 6_000), tuple(DELAYS), 5)
QUICK = Scale(0.02, 3, (1_000, 20_000), (NEVER, "1 min", "0"), 2)

Grid = dict[tuple[str, int], Cell]
"""By D and rate."""


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every target is met."""
    scale, console = QUICK if quick else FULL, Console()
    grid = _grid(scale, console)
    records = [_of_cell(grid, delay, rate, scale) for delay in scale.delays if delay != NEVER for rate in scale.rates]
    records += [_of_state(grid, delay, scale) for delay in scale.delays if delay != NEVER]
    if quick:  # so few reports say nothing of the targets
        records = [replace(record, target=None) for record in records]
    show(records, "Tunable compression", console)
    write(records, out / "compress.json")
    draw(grid, out / "compress.png")
    return 0 if all(record.meets is not False for record in records) else 1


def _grid(scale: Scale, console: Console) -> Grid:
    """All cells in turn, repetition by repetition, so that other load on the machine affects all of them."""
    past, minutes = minutes_of(scale.joins, WARM_UP + scale.minutes)
    full = filled(past)
    grid: Grid = {}
    turns = list(product(range(scale.repetitions), scale.delays, scale.rates))
    for _, delay, rate in track(turns, "stops", console=console):
        ran = paced(full, _after(delay), len(past), minutes, rate)
        grid.setdefault((delay, rate), Cell()).runs.append(ran)
    full.forget()
    return grid


def _after(delay: str) -> int | None:
    written = DELAYS[delay]
    return None if written is None else microseconds(written, "after")


def _of_cell(grid: Grid, delay: str, rate: int, scale: Scale) -> Record:
    cell, plain = grid[delay, rate], grid[NEVER, rate]
    ratios = cell.beside(plain, "throughput")
    return Record(
        name=f"stops at {rate:,} reports/s, D = {delay}: throughput against D = ∞",
        rows_per_s=cell.mean("throughput"),
        baseline=plain.mean("throughput"),
        ratio=fmean(ratios),
        target=THROUGHPUT.get(delay) if rate == scale.rates[-1] else None,
        baseline_name="at ∞",
        note=f"ratio ± {half_width(ratios):.2f}; {_interval(cell, 'throughput', 1, 0)} and "
        f"{_interval(plain, 'throughput', 1, 0)} reports/s; latency {_interval(cell, 'latency', 1e3, 0)} and "
        f"{_interval(plain, 'latency', 1e3, 0)} ms; 99 % intervals of {len(cell.runs)} repetitions",
    )


def _interval(cell: Cell, what: str, scale: float, digits: int) -> str:
    return f"{cell.mean(what) * scale:,.{digits}f} ± {cell.half_width(what) * scale:,.{digits}f}"


def _of_state(grid: Grid, delay: str, scale: Scale) -> Record:
    """The state is the same at every rate and in every repetition."""
    last, plain = (grid[name, scale.rates[-1]].runs[-1] for name in (delay, NEVER))
    return Record(
        name=f"stops, D = {delay}: chunks, times smaller",
        rows_per_s=None,
        baseline=plain.chunk_bytes,
        ratio=plain.chunk_bytes / last.chunk_bytes,
        target=SMALLER.get(delay),
        baseline_name="bytes at ∞",
        note=f"{last.chunk_bytes:,} bytes of chunks, {last.share:.0%} of them compressed; {last.compressions:,} "
        f"compressions, {last.decompressions:,} decompressions in {scale.minutes} minutes of event time; "
        f"with the panes, {last.memory:,} bytes in memory, {plain.memory:,} at ∞",
    )
