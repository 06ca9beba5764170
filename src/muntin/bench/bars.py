"""A chart of groups of bars: the rates of systems, one group per query."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

INK = {
    "Muntin": "#0b6e4f",
    "Muntin, muntin.scan": "#0b6e4f",
    "Muntin, DataFrame": "#7fb69e",
    "Spark": "#c8553d",
    "Flink SQL": "#4059ad",
}
"""The colours of the systems."""


def draw(rates: Mapping[str, Mapping[str, float]], title: str, path: Path) -> None:
    """`rates` are rows per second, by group and system. A system that a group lacks leaves a gap there."""
    systems = list(dict.fromkeys(system for of_group in rates.values() for system in of_group))
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    width = 0.8 / len(systems)
    for place, system in enumerate(systems):
        groups = [(number, of_group[system]) for number, of_group in enumerate(rates.values()) if system in of_group]
        left = [number + (place - (len(systems) - 1) / 2) * width for number, _ in groups]
        bars = axes.bar(left, [rate / 1e6 for _, rate in groups], width, color=INK[system], label=system)
        axes.bar_label(bars, labels=[f"{rate / 1e6:.3g}" for _, rate in groups], fontsize=7)
    axes.set_xticks(range(len(rates)), list(rates))
    axes.set_yscale("log")
    axes.set_ylabel("million rows per second")
    axes.set_title(title, loc="left", weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=len(systems), loc="upper center", bbox_to_anchor=(0.5, -0.08))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
