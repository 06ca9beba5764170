"""The chart of the benchmark of latency: percentiles over the rate of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

INK = {"Muntin": "#0b6e4f", "Spark window()": "#c8553d", "chained tiles": "#d9a441"}


def draw(systems: Mapping[str, Mapping[int, Mapping[int, float]]], path: Path) -> None:
    """A line of medians for each system, and a band up to the 99th percentile. What never came is not drawn."""
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for name, rates in systems.items():
        points = {rate: values for rate, values in rates.items() if all(map(isfinite, values.values()))}
        medians = [values[50] for values in points.values()]
        label = name if len(points) == len(rates) else f"{name} (does not keep up with more)"
        axes.plot(list(points), medians, color=INK[name], marker="o", linewidth=2.2, label=label)
        axes.fill_between(
            list(points), medians, [values[99] for values in points.values()], color=INK[name], alpha=0.15
        )
    axes.set(xscale="log", xlabel="rows per second", ylabel="seconds: median, and up to p99")
    axes.set_ylim(bottom=0)
    ticks = sorted({rate for rates in systems.values() for rate in rates})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_title("From the row that closes a window to its result", loc="left", weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.legend(frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
