"""The chart of the slide benchmark: rate over size/slide."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

INK = {"Muntin": "#0b6e4f", "Spark window()": "#c8553d"}
"""The colours of the systems. A curve with any other name is a limit, drawn as a thin line."""
ABOVE = "Muntin"
"""The system whose labels are above its curve; those of the others are below."""


def draw(curves: Mapping[str, Mapping[int, float]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    for name, points in curves.items():
        if name in INK:
            _system(axes, name, points)
        else:
            axes.plot(list(points), list(points.values()), color="#999999", linestyle="--", linewidth=1.2)
            last = max(points)
            axes.annotate(name, (last, points[last]), (0, 20), textcoords="offset points", color="#777777", ha="right")
    rates = [rate for points in curves.values() for rate in points.values()]
    axes.set(xscale="log", yscale="log", xlabel="size / slide", ylabel="input rows per second")
    axes.set_ylim(min(rates) / 2.5, max(rates) * 2.5)
    ticks = sorted({ratio for points in curves.values() for ratio in points})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_title("Sliding sum and mean, 1,000 keys: the cost of sliding finely", loc="left", weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _system(axes: Any, name: str, points: Mapping[int, float]) -> None:
    colour, above = INK[name], name == ABOVE
    axes.plot(list(points), list(points.values()), color=colour, marker="o", linewidth=2.2)
    for ratio, rate in points.items():
        text = f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:,.1f} k"
        axes.annotate(
            text,
            (ratio, rate),
            (0, 9) if above else (8, -18),
            textcoords="offset points",
            color=colour,
            size=8,
            ha="center" if above else "right",
        )
    last = max(points)
    axes.annotate(
        name,
        (last, points[last]),
        (0, -20) if above else (-16, 2),
        textcoords="offset points",
        color=colour,
        weight="bold",
        ha="right",
    )
