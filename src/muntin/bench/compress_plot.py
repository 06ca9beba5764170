"""The chart of the compress benchmark: throughput, latency, compressions and memory by D and rate.

After figures 1 to 4 of Gulisano (2024), with the figures in the text of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from muntin.bench.compress_grid import Cell, half_width

INK = ("#7fb3d3", "#3a7ca5", "#0b6e4f", "#c8553d", "#7b4b94")
PUBLISHED = "#888888"


@dataclass(frozen=True)
class _Panel:
    title: str
    values: Callable[[Cell, Cell], list[float]]
    """One per repetition, from a cell and the one without compression."""
    published: tuple[tuple[str, float, str], ...] = ()
    """Figures in the text of Gulisano (2024): D, value, label."""
    log: bool = False
    percent: bool = False


def _of(what: str, scale: float = 1.0) -> Callable[[Cell, Cell], list[float]]:
    return lambda cell, _: [getattr(run, what) * scale for run in cell.runs]


def _beside(what: str) -> Callable[[Cell, Cell], list[float]]:
    return lambda cell, plain: cell.beside(plain, what)


PANELS = (
    _Panel("throughput, reports/s (after fig. 1b)", _of("throughput")),
    _Panel("latency of a window, ms (after fig. 1c)", _of("latency", 1e3), log=True),
    _Panel(
        "throughput against D = ∞ (after fig. 2a)",
        _beside("throughput"),
        (("1 min", 0.85, "about −15 %, medium rate"), ("15 s", 0.6, "−40 %, high rate")),
        percent=True,
    ),
    _Panel(
        "latency against D = ∞ (after fig. 2b)",
        _beside("latency"),
        (("15 s", 10.0, "+9×, high rate"),),
        log=True,
    ),
    _Panel("compressions (after fig. 3a)", _of("compressions")),
    _Panel("decompressions (after fig. 3b)", _of("decompressions")),
    _Panel(
        "bytes of chunks against D = ∞ (after fig. 4a)",
        _beside("chunk_bytes"),
        (("1 min", 1 / 3, "from 3 to 1 GB, medium rate"),),
        percent=True,
    ),
    _Panel("share compressed (after fig. 4b)", _of("share"), (("1 min", 0.4, "about 40 %"),), percent=True),
)


def draw(grid: Mapping[tuple[str, int], Cell], path: Path) -> None:
    figure, axes = plt.subplots(2, 4, figsize=(16, 7.5), layout="constrained")
    for panel, panel_axes in zip(PANELS, axes.flat, strict=True):
        _panel(panel, panel_axes, grid)
    axes[0, 0].legend(frameon=False, fontsize=8)
    title = "Linear Road, stops of each vehicle, windows of 3 h by 1 min: what each D costs and saves"
    figure.suptitle(f"{title} (means and 99 % intervals)", weight="bold", ha="left", x=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(panel: _Panel, axes: Any, grid: Mapping[tuple[str, int], Cell]) -> None:
    delays, rates = list(dict.fromkeys(delay for delay, _ in grid)), list(dict.fromkeys(rate for _, rate in grid))
    for ink, rate in zip(INK, rates, strict=False):
        values = [panel.values(grid[delay, rate], grid[delays[0], rate]) for delay in delays]
        means, halves = np.mean(values, axis=1), np.array([half_width(of_cell) for of_cell in values])
        axes.plot(range(len(delays)), means, "-o", color=ink, markersize=4, label=f"{rate:,} reports/s due")
        low = np.maximum(means - halves, means / 4) if panel.log else means - halves
        axes.fill_between(range(len(delays)), low, means + halves, color=ink, alpha=0.15, linewidth=0)
    mark_published(axes, delays, panel.published)
    axes.set_xticks(range(len(delays)), delays)
    if panel.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if panel.percent:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    _finish(axes, panel.title)


def mark_published(axes: Any, delays: Sequence[str], published: Sequence[tuple[str, float, str]]) -> None:
    """The figures in the text of Gulisano (2024): D, value, label."""
    for delay, value, label in published:
        if delay in delays:
            place = (delays.index(delay), value)
            axes.plot(*place, "x", color=PUBLISHED, markersize=7)
            axes.annotate(
                f"Gulisano 2024: {label}",
                place,
                (-6, -3),
                textcoords="offset points",
                color=PUBLISHED,
                fontsize=7,
                ha="right",
            )


def _finish(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
