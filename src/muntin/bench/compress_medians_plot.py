"""The chart of compression on Spark: cost and saving of each D, with the figures in the text of Gulisano (2024)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from muntin.bench.compress_plot import mark_published

INK = ("#3a7ca5", "#0b6e4f", "#c8553d", "#7b4b94")


@dataclass(frozen=True)
class Point:
    """One workload at one D."""

    delay: str
    throughput: float
    """Relative to the throughput without compression."""
    rows_per_s: float
    latency: float
    """Seconds."""
    latency_beside: float
    """Relative to the latency without compression."""
    state: float
    """Bytes of chunks."""
    memory: float
    """Resident bytes of the workers."""
    compressions: int
    decompressions: int
    share: float
    """The share of chunks that are compressed."""


Curves = Mapping[str, Sequence[Point]]


@dataclass(frozen=True)
class _Panel:
    title: str
    value: Callable[[Point, Point], float]
    """From a point, and the point without compression."""
    published: tuple[tuple[str, float, str], ...] = ()
    """Figures in the text of Gulisano (2024): D, value, label."""
    log: bool = False
    percent: bool = False


PANELS = (
    _Panel("throughput, rows per second", lambda point, _: point.rows_per_s, log=True),
    _Panel("latency of a batch, seconds", lambda point, _: point.latency, log=True),
    _Panel(
        "throughput against D = ∞",
        lambda point, _: point.throughput,
        (("1 min", 0.85, "about −15 %, medium rate"), ("15 s", 0.6, "−40 %, high rate")),
        percent=True,
    ),
    _Panel(
        "latency against D = ∞",
        lambda point, _: point.latency_beside,
        (("15 s", 10.0, "+9×, high rate"),),
        log=True,
    ),
    _Panel("compressions", lambda point, _: point.compressions),
    _Panel("decompressions", lambda point, _: point.decompressions),
    _Panel(
        "bytes of state against D = ∞",
        lambda point, plain: point.state / plain.state,
        (("1 min", 1 / 3, "from 3 to 1 GB, medium rate"),),
        percent=True,
    ),
    _Panel("share compressed", lambda point, _: point.share, (("1 min", 0.4, "about 40 %"),), percent=True),
    _Panel("resident memory of the workers, MB", lambda point, _: point.memory / 1e6),
)


def draw(curves: Curves, path: Path) -> None:
    figure, axes = plt.subplots(3, 3, figsize=(13, 10), layout="constrained")
    for panel, panel_axes in zip(PANELS, axes.flat, strict=True):
        _panel(panel, panel_axes, curves)
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle(
        "Linear Road, windows of 3 h by 1 min: what each D costs and saves", weight="bold", ha="left", x=0.01
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _panel(panel: _Panel, axes: Any, curves: Curves) -> None:
    delays = [point.delay for point in max(curves.values(), key=len)]  # one of the curves has every D
    for ink, (name, points) in zip(INK, curves.items(), strict=False):
        values = [panel.value(point, points[0]) for point in points]
        axes.plot([delays.index(point.delay) for point in points], values, "-o", color=ink, markersize=4, label=name)
    mark_published(axes, delays, panel.published)
    axes.set_xticks(range(len(delays)), delays)
    axes.set_title(panel.title, loc="left", fontsize=9)
    if panel.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if panel.percent:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
