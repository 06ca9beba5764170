"""The chart of the kernel benchmark: tuples per second over the number of keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

INK = {"int": "#0b6e4f", "bigint": "#4059ad", "string": "#c8553d"}
"""The colours of the types of keys. Any other curve is a limit."""


def draw(curves: Mapping[str, Mapping[int, float]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    for name, points in curves.items():
        stage, _, kind = name.partition(", ")
        axes.plot(
            list(points),
            [rate / 1e6 for rate in points.values()],
            color=INK.get(kind, "#999999"),
            linestyle="-" if stage == "run" else "--",
            marker="o" if kind in INK else None,
            linewidth=2 if stage == "run" else 1.2,
            label=name,
        )
    axes.set(xscale="log", yscale="log", xlabel="keys", ylabel="million tuples per second")
    axes.set_title("The pane stage on one core: sums, slide 10 ms", loc="left", weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
