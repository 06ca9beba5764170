"""The chart of the windows benchmark: rate by keys and by size/slide, one curve per model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

INK = {
    "time": "#444444",
    "count": "#0b6e4f",
    "session": "#3a7ca5",
    "slide by tuple": "#c8553d",
    "slide by time": "#e09f3e",
    "delta": "#7b4b94",
}


def draw(by_keys: Mapping[str, Mapping[int, float]], by_ratio: Mapping[str, Mapping[int, float]], path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharey=True)
    _curves(left, by_keys, "keys, at size/slide 60")
    _curves(right, by_ratio, "size / slide, at 100 keys")
    left.set_ylabel("input rows per second")
    left.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate / 1e6:g} M"))
    left.set_ylim(bottom=0)
    left.legend(frameon=False, fontsize=8)
    left.set_title("Every window model beside time windows", loc="left", weight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _curves(axes: Any, curves: Mapping[str, Mapping[int, float]], label: str) -> None:
    for name, points in curves.items():
        dashed = "--" if name == "time" else "-"
        axes.plot(list(points), list(points.values()), dashed, color=INK[name], marker="o", markersize=4, label=name)
    ticks = sorted({tick for points in curves.values() for tick in points})
    axes.set(xscale="log", xlabel=label)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
