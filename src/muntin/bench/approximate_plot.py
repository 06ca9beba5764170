"""The chart of the approximate benchmark: time, memory and error of samples, after SPEAr's figures 8 to 12."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

from muntin.arrays import BoolArray, Float64Array

EXACT, SAMPLED, OVER = "#888888", "#0b6e4f", "#c8553d"


@dataclass(frozen=True)
class Pair:
    """An exact query and the approximate one."""

    title: str
    exact: tuple[float, float]
    approximate: tuple[float, float]
    """Seconds of a window: mean, and 95th percentile."""
    bytes_exact: int
    bytes_sampled: int
    errors: Float64Array
    """The true errors of the accelerated windows."""

    @property
    def name(self) -> str:
        return self.title.partition(",")[0]


@dataclass(frozen=True)
class Budget:
    """Means from samples of one budget."""

    budget: int
    errors: Float64Array
    accelerated: BoolArray
    seconds: float
    """Mean seconds of a window."""

    @property
    def share(self) -> float:
        """The share of windows that were accelerated."""
        return float(self.accelerated.mean())

    @property
    def of_accelerated(self) -> Float64Array:
        return self.errors[self.accelerated]

    def over(self, allowed: float) -> int:
        """The number of accelerated windows whose error exceeds `allowed`."""
        return int(np.sum(self.of_accelerated > allowed))


@dataclass
class Picture:
    """The data of the chart, panel by panel."""

    allowed: float
    """The error limit."""
    pairs: list[Pair] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    by_count: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Total seconds, exact and approximate, by the tuples of a window."""
    by_size: dict[int, Pair] = field(default_factory=dict)
    """Pairs by the seconds of a window."""


def draw(picture: Picture, path: Path) -> None:
    figure, axes = plt.subplots(2, 3, figsize=(14, 8), layout="constrained")
    _times(axes[0, 0], picture.pairs)
    _memory(axes[0, 1], picture.pairs)
    _errors(axes[0, 2], picture.pairs, picture.allowed)
    _budgets(axes[1, 0], picture.budgets, picture.allowed)
    _by_count(axes[1, 1], picture.by_count)
    _by_size(axes[1, 2], picture.by_size)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.25)
    figure.suptitle("Answers from samples, beside exact ones", weight="bold", ha="left", x=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _times(axes: Any, pairs: Sequence[Pair]) -> None:
    _bars(axes, [pair.name for pair in pairs], [pair.exact[0] * 1e3 for pair in pairs], -0.2, EXACT, "exact")
    _bars(
        axes, [pair.name for pair in pairs], [pair.approximate[0] * 1e3 for pair in pairs], 0.2, SAMPLED, "approximate"
    )
    for position, pair in enumerate(pairs):  # a line up to the 95th percentile
        for shift, (mean, p95) in ((-0.2, pair.exact), (0.2, pair.approximate)):
            axes.plot([position + shift] * 2, [mean * 1e3, p95 * 1e3], color="black", linewidth=1)
    _logarithmic(axes)
    axes.set_title("window time, ms: mean, and 95th percentile (fig. 8)", loc="left", fontsize=9)


def _memory(axes: Any, pairs: Sequence[Pair]) -> None:
    _bars(axes, [pair.name for pair in pairs], [pair.bytes_exact / 1e3 for pair in pairs], -0.2, EXACT, "tuples")
    _bars(axes, [pair.name for pair in pairs], [pair.bytes_sampled / 1e3 for pair in pairs], 0.2, SAMPLED, "samples")
    _logarithmic(axes)
    axes.set_title("memory of one worker, kB", loc="left", fontsize=9)


def _bars(axes: Any, names: Sequence[str], heights: Sequence[float], shift: float, ink: str, label: str) -> None:
    axes.bar(np.arange(len(names)) + shift, heights, 0.38, color=ink, label=label)
    axes.set_xticks(range(len(names)), names, fontsize=7, rotation=20)


def _logarithmic(axes: Any) -> None:
    axes.set_yscale("log")
    axes.set_ylim(bottom=axes.get_ylim()[0] / 2)  # so that the smallest bar is visible
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.legend(frameon=False, fontsize=8)


def _errors(axes: Any, pairs: Sequence[Pair], allowed: float) -> None:
    shown = [pair for pair in pairs if len(pair.errors)]
    if shown:
        axes.boxplot([pair.errors for pair in shown], whis=(5, 95), flierprops={"markersize": 3})
        axes.set_xticks(range(1, len(shown) + 1), [pair.name for pair in shown], fontsize=7, rotation=20)
    axes.axhline(allowed, color=OVER, linewidth=1)
    axes.set_title("true rank error of accelerated windows, and the error allowed", loc="left", fontsize=9)
    _percent(axes)


def _budgets(axes: Any, budgets: Sequence[Budget], allowed: float) -> None:
    """Figure 11: the error of every window by budget; 0 for exact answers."""
    first, ticks = 0, []
    for budget in budgets:
        positions = np.arange(first, first + len(budget.errors))
        over = budget.errors > allowed
        axes.plot(positions[~over], budget.errors[~over], ".", color=SAMPLED, markersize=2)
        axes.plot(positions[over], budget.errors[over], ".", color=OVER, markersize=4)
        ticks.append((first + len(budget.errors) / 2, f"budget {budget.budget:,}\n{budget.share:.0%} accelerated"))
        first += len(budget.errors)
    axes.axhline(allowed, color=OVER, linewidth=1)
    axes.set_xticks([position for position, _ in ticks], [text for _, text in ticks], fontsize=8)
    axes.set_title("error of means from samples, window by window (fig. 11)", loc="left", fontsize=9)
    _percent(axes)


def _percent(axes: Any) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))


def _by_count(axes: Any, seconds: dict[int, tuple[float, float]]) -> None:
    for index, (ink, label) in enumerate(((EXACT, "exact"), (SAMPLED, "approximate"))):
        axes.plot(list(seconds), [pair[index] for pair in seconds.values()], "-o", color=ink, markersize=4, label=label)
    axes.set(xscale="log", xlabel="packets in a window")
    axes.set_xticks(list(seconds), [f"{count:,}" for count in seconds], fontsize=8)
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("median over count windows: time in all, s (fig. 9)", loc="left", fontsize=9)


def _by_size(axes: Any, pairs: dict[int, Pair]) -> None:
    for ink, label in ((EXACT, "exact"), (SAMPLED, "approximate")):
        means = [getattr(pair, label)[0] * 1e3 for pair in pairs.values()]
        axes.plot(list(pairs), means, "-o", color=ink, markersize=4, label=label)
    axes.set(xlabel="seconds of a window")
    axes.set_xticks(list(pairs), [f"{seconds:,}" for seconds in pairs])
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("grouped median of GCM: window time, ms (fig. 10)", loc="left", fontsize=9)
