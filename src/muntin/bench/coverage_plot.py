"""The chart of the coverage benchmark: how often intervals hold against what they promise, and how wide they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from muntin.bench.coverage_core import CONFIDENCES, MADE, Covered

INK = ("#3a7ca5", "#0b6e4f", "#c8553d", "#7b4b94")
AT = 0.95
ENOUGH = 100
"""Intervals of a setting: a share of fewer says little. The table and the verdict have all of them."""
NARROW = 1e-3
"""Widths below that, of values that are nearly constant, are not drawn."""


def draw(found: Sequence[Covered], path: Path) -> None:
    figure, (shares, widths) = plt.subplots(1, 2, figsize=(13, 5.5), width_ratios=(1, 1.2))
    _draw_shares(shares, found)
    _draw_widths(widths, found)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_shares(axes: Axes, found: Sequence[Covered]) -> None:
    """Every setting and aggregate is a point."""
    found = [each for each in found if each.given >= ENOUGH]
    names = list(dict.fromkeys(each.aggregate for each in found))
    for row, name in enumerate(names):
        for confidence, ink in zip(CONFIDENCES, INK, strict=False):
            of = [each for each in found if (each.aggregate, each.confidence) == (name, confidence)]
            spread = np.linspace(-0.3, 0.3, len(of)) if len(of) > 1 else [0.0]
            axes.plot([each.share for each in of], row + np.array(spread), ".", color=ink, markersize=3, alpha=0.6)
    for confidence, ink in zip(CONFIDENCES, INK, strict=False):
        axes.axvline(confidence, color=ink, linewidth=1, label=f"promised: {confidence:.0%}")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("share of windows whose interval contains the exact answer")
    axes.set_title(f"How often intervals hold: a point for each setting with {ENOUGH} of them")
    axes.legend(loc="lower left", fontsize=8)


def _draw_widths(axes: Axes, found: Sequence[Covered]) -> None:
    """The widths of means, beside those of Student's t."""
    means = [each for each in found if each.aggregate == "mean" and each.confidence == AT]
    place = np.arange(len(MADE))
    for number, size in enumerate(sorted({each.setting.size for each in means})):
        ours, student = [], []
        for made in MADE:
            of = [
                each
                for each in means
                if each.setting.made == made
                and each.setting.size == size
                and each.setting.rate == 0.9
                and each.setting.way == "concept"
                and not np.isnan(each.student)
            ]
            ours.append(np.median([each.width for each in of]) if of else np.nan)
            student.append(np.median([each.student for each in of]) if of else np.nan)
        shift = (number - 1) * 0.22
        axes.plot(place + shift, ours, "o", color=INK[number % len(INK)], label=f"{size:,} rows")
        axes.plot(place + shift, student, "_", color=INK[number % len(INK)], markersize=12)
    axes.set_yscale("log")
    axes.set_xticks(place, list(MADE), rotation=40, ha="right")
    axes.set_ylabel("width / exact mean")
    axes.set_ylim(bottom=NARROW)
    axes.set_title("Means at 95 %, one row in ten kept (–: Student's t, which does not hold)")
    axes.legend(fontsize=8)
