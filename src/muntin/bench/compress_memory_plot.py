"""The chart of the resident memory of the workers over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt

INK = ("#888888", "#0b6e4f")


def draw(samples: Mapping[str, Sequence[int]], path: Path) -> None:
    """`samples` are bytes, one per second of each run, by D."""
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for ink, (delay, of_run) in zip(INK, samples.items(), strict=True):
        axes.plot(np.array(of_run) / 1e6, "-o", color=ink, markersize=3, label=f"D = {delay}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds of the run")
    axes.set_title("resident memory of Spark's Python workers together, MB", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
