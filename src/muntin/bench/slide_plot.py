"""The picture of the slide benchmark: rate over size/slide."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {"Muntin": "#0b6e4f", "Spark window()": "#c8553d"}


def draw(curves: Mapping[str, Mapping[int, float]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    for name, points in curves.items():
        colour = COLOURS.get(name)
        ratios, rates = list(points), list(points.values())
        if colour is None:
            axes.plot(ratios, rates, color="#888888", linestyle="--", linewidth=1.2)
            axes.annotate(name, (ratios[0], rates[0]), (0, 6), textcoords="offset points", color="#666666")
            continue
        axes.plot(ratios, rates, color=colour, marker="o", linewidth=2.2)
        axes.annotate(
            name,
            (ratios[-1], rates[-1]),
            (-4, -16),
            textcoords="offset points",
            color=colour,
            weight="bold",
            ha="right",
        )
        for ratio, rate in points.items():
            label = f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:,.0f} k"
            axes.annotate(label, (ratio, rate), (0, 8), textcoords="offset points", color=colour, ha="center", size=8)
    axes.set(xscale="log", yscale="log", xlabel="size / slide", ylabel="input rows per second")
    axes.set_xticks([1, 10, 60, 600, 3600], ["1", "10", "60", "600", "3600"])
    axes.minorticks_off()
    axes.set_title("Sliding sum and mean, 1,000 keys: the cost of sliding finely", loc="left", weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
