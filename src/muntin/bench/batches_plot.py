"""The chart of the benchmark of small batches: what a batch takes, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

INK = {
    "source": "#cfc8b8",
    "offset log": "#b0a58c",
    "planning": "#8d8d8d",
    "the batch itself": "#0b6e4f",
    "commit log": "#d9a441",
}


def draw(systems: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Bars of milliseconds, by system and part."""
    figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
    names = sorted(systems, key=lambda name: -sum(systems[name].values()))
    begins = dict.fromkeys(names, 0.0)
    for part, colour in INK.items():
        axes.barh(names, [systems[name][part] for name in names], left=list(begins.values()), color=colour, label=part)
        begins = {name: begin + systems[name][part] for name, begin in begins.items()}
    for name, end in begins.items():
        axes.annotate(f"{end:,.0f} ms", (end, name), (4, 0), textcoords="offset points", va="center", size=8)
    axes.set(xlabel="milliseconds", xlim=(0, max(begins.values()) * 1.12))
    axes.set_title("A batch of 50,000 rows, part by part", loc="left", weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
