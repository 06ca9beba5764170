"""The chart of the updates benchmark: seconds of a batch over the number of changed windows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

INK = {"Muntin": "#0b6e4f", "Spark": "#c8553d"}


def draw(curves: Mapping[str, Mapping[int, float]], path: Path) -> None:
    """One curve per system and number of open keys."""
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    seen: set[str] = set()
    for name, points in curves.items():
        system = name.split(",")[0]
        style = "--" if system in seen else "-"
        seen.add(system)
        axes.plot(
            list(points),
            list(points.values()),
            color=INK[system],
            marker="o",
            linewidth=2.2,
            linestyle=style,
            label=name,
        )
        last = max(points)
        axes.annotate(
            f"{points[last]:,.1f} s",
            (last, points[last]),
            (-6, 8),
            textcoords="offset points",
            color=INK[system],
            size=8,
            ha="right",
        )
    axes.set(xscale="log", yscale="log", xlabel="changed windows per batch", ylabel="seconds per batch")
    axes.set_title("Updates of open windows, size/slide 60", loc="left", weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
