"""The chart of the tables benchmark: the seconds of each system, the fastest first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

OURS, OTHERS, PARTS = "#0b6e4f", "#999999", "#d5d5d5"


def draw(seconds: Mapping[str, float], rows: int, path: Path) -> None:
    """`seconds` are those of each system. Systems that only compute panes are light."""
    names = sorted(seconds, key=lambda name: -seconds[name])
    colours = [OURS if name.startswith("Muntin") else PARTS if name.endswith("alone") else OTHERS for name in names]
    figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
    bars = axes.barh(names, [seconds[name] for name in names], color=colours)
    axes.bar_label(bars, labels=[f" {seconds[name]:.1f} s" for name in names], fontsize=8)
    axes.set_title(f"A sliding sum over {rows:,} rows", loc="left", weight="bold")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xticks([])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
