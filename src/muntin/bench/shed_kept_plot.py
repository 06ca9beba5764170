"""The chart of kept tuples: error by the share that was kept, and that share by rate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from muntin.bench.shed_core import Shed

INK = ("#c8553d", "#7fb3d3", "#0b6e4f", "#7b4b94")

Curves: TypeAlias = Mapping[str, Mapping[float, Shed]]
"""By method, and by rate."""


def draw(curves: Mapping[str, Curves], path: Path) -> None:
    figure, axes = plt.subplots(2, len(curves), figsize=(4.4 * len(curves), 7.5), layout="constrained", squeeze=False)
    for column, (title, of_data) in enumerate(curves.items()):
        _errors(axes[0][column], of_data)
        _shares(axes[1][column], of_data)
        axes[0][column].set_title(f"{title}: error by share kept (fig. 10)", loc="left", fontsize=9)
        axes[1][column].set_title("share kept by rate; dotted: as asked for", loc="left", fontsize=9)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.25)
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes[0][0].legend(frameon=False, fontsize=8)
    title = "Mean by route: what is kept of rare groups, and the error"
    figure.suptitle(title, weight="bold", ha="left", x=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _errors(axes: Any, curves: Curves) -> None:
    for ink, (name, by_rate) in zip(INK, curves.items(), strict=False):
        points = sorted((shed.kept, shed.error) for shed in by_rate.values())
        axes.plot(*zip(*points, strict=True), "-o", color=ink, markersize=4, label=name)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)


def _shares(axes: Any, curves: Curves) -> None:
    rates = sorted(next(iter(curves.values())))
    for ink, (name, by_rate) in zip(INK, curves.items(), strict=False):
        axes.plot(rates, [by_rate[rate].kept for rate in rates], "-o", color=ink, markersize=4, label=name)
    axes.plot(rates, [1 - rate for rate in rates], ":", color="black", linewidth=1)
    axes.set_ylim(0, 1.02)
