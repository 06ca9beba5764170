"""The chart of SPRINGALD's experiments: a small chart per figure of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from muntin.bench.kernel_figures import Figure, Values

INK = ("#0b6e4f", "#c8553d", "#4059ad", "#d4a017", "#999999")
COLUMNS = 3
STEEP = 20
"""Values that differ by more than this have a logarithmic axis."""


def draw(figures: Sequence[Figure], values: Values, path: Path) -> None:
    rows = -(-len(figures) // COLUMNS)
    page, all_axes = plt.subplots(rows, COLUMNS, figsize=(4.4 * COLUMNS, 3.1 * rows), layout="constrained")
    for axes in all_axes.flat[len(figures) :]:
        axes.set_visible(False)
    for axes, figure in zip(all_axes.flat, figures, strict=False):
        _draw(axes, figure, values)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.savefig(path, dpi=110)
    plt.close(page)


def _draw(axes: Any, figure: Figure, values: Values) -> None:
    unit = 1e6 if figure.y.startswith("million") else 1.0
    own = values[figure.number]
    axes.set_title(f"{figure.number}: {figure.title}", loc="left", fontsize=9, weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel(figure.y)
    curves = list(dict.fromkeys(point.curve for point in figure.points))
    if not figure.x:
        axes.bar(curves, [own[curve, 0] / unit for curve in curves], color=INK[0])
        axes.tick_params(axis="x", rotation=40, labelsize=7)
        return
    for curve, ink in zip(curves, INK * len(curves), strict=False):
        points = [(point.x, own[curve, point.x] / unit) for point in figure.points if point.curve == curve]
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, color=ink, label=curve)
    said = [(point.x, point.paper / unit) for point in figure.points if point.paper is not None]
    if said:
        axes.plot(*zip(*said, strict=True), marker="*", color="black", linestyle="none", label="the paper, A30")
    axes.set_xlabel(figure.x)
    axes.set_xscale("log" if figure.log_x else "linear")
    if max(own.values()) > STEEP * min(own.values()) > 0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=6)
