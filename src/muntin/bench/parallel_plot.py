"""The chart of the parallel benchmark: figures 11 to 16 of Mencagli et al. (2018), with skew and window batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt

from muntin.bench.parallel_records import AUTOMATIC
from muntin.bench.parallel_runs import Run
from muntin.features.workers.policy import Model

ACTIVE, AGNOSTIC, OTHER = "#c8553d", "#0b6e4f", "#888888"
INK: Mapping[Model, str] = {"active": ACTIVE, "agnostic": AGNOSTIC, "keyed": OTHER}
MARKS = "os^D"


@dataclass
class Picture:
    """The data of the chart, panel by panel."""

    models: dict[str, dict[tuple[Model, int], Run]] = field(default_factory=dict)
    chunks: dict[int, Run] = field(default_factory=dict)
    rates: dict[int, Run] = field(default_factory=dict)
    by_tuple: dict[tuple[int, int], Run] = field(default_factory=dict)
    skewed: dict[str, dict[Model, Run]] = field(default_factory=dict)
    sent: dict[str, dict[str, Run]] = field(default_factory=dict)
    hot: dict[str, Run] = field(default_factory=dict)


def draw(picture: Picture, path: Path) -> None:
    figure, axes = plt.subplots(4, 2, figsize=(13, 16), layout="constrained")
    _by_workers(axes[0][0], picture, "fastest", "results/s by workers (fig. 11a)")
    _by_workers(axes[0][1], picture, "latency", "window latency T_calc, s, by workers (fig. 11b)")
    chunks = {"automatic" if tuples == AUTOMATIC else f"{tuples:,}": run for tuples, run in picture.chunks.items()}
    _two(axes[1][0], chunks, "by tuples of a chunk (fig. 12 and 13)")
    _two(axes[1][1], {f"{rate // 1000:,} k/s": run for rate, run in picture.rates.items()}, "by quotes/s (fig. 14)")
    by_tuple = {f"{size} s, {every:,}": run for (size, every), run in picture.by_tuple.items()}
    _two(axes[2][0], by_tuple, "slide by tuple: size and slide (fig. 15 and 16)")
    _skewed(axes[2][1], picture.skewed)
    _sent(axes[3][0], picture.sent)
    _bars(axes[3][1], list(picture.hot), [run.fastest for run in picture.hot.values()], [OTHER, AGNOSTIC])
    axes[3][1].set_title("one hot key among many: results/s", loc="left", fontsize=9)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.25)
    figure.suptitle("Workers for windows: active and agnostic", weight="bold", ha="left", x=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _by_workers(axes: Any, picture: Picture, what: str, title: str) -> None:
    for mark, (name, runs) in zip(MARKS, picture.models.items(), strict=False):
        for model, ink in INK.items():
            points = sorted(
                (workers, getattr(run, what)) for (run_model, workers), run in runs.items() if run_model == model
            )
            if points:
                axes.plot(*zip(*points, strict=True), f"-{mark}", color=ink, markersize=5, label=f"{name}, {model}")
    axes.set_ylim(bottom=0)
    axes.set_xticks(sorted({workers for runs in picture.models.values() for _, workers in runs}))
    axes.set_xlabel("workers")
    axes.legend(frameon=False, fontsize=8)
    axes.set_title(title, loc="left", fontsize=9)


def _two(axes: Any, runs: Mapping[str, Run], title: str) -> None:
    """Results per second as bars, window latency as dots."""
    _bars(axes, list(runs), [run.fastest for run in runs.values()], [AGNOSTIC] * len(runs))
    latency_axes = axes.twinx()
    latency_axes.plot(range(len(runs)), [run.latency * 1e3 for run in runs.values()], "o", color="black", markersize=4)
    latency_axes.set_ylim(bottom=0)
    latency_axes.set_ylabel("T_calc, ms (dots)", fontsize=8)
    latency_axes.spines["top"].set_visible(False)
    axes.set_title(f"agnostic, 2 workers: results/s {title}", loc="left", fontsize=9)


def _bars(axes: Any, names: Sequence[str], heights: Sequence[float], inks: Sequence[str]) -> None:
    axes.bar(range(len(names)), heights, 0.5, color=inks)
    axes.set_xticks(range(len(names)), names, fontsize=8)


def _skewed(axes: Any, skewed: Mapping[str, Mapping[Model, Run]]) -> None:
    sides: tuple[tuple[float, Model], ...] = ((-0.2, "active"), (0.2, "agnostic"))
    for shift, model in sides:
        heights = [runs[model].overall for runs in skewed.values()]
        axes.bar(np.arange(len(heights)) + shift, heights, 0.38, color=INK[model], label=model)
    axes.set_xticks(range(len(skewed)), list(skewed), fontsize=8)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("windows of very different sizes, 2 workers: results/s", loc="left", fontsize=9)


def _sent(axes: Any, sent: Mapping[str, Mapping[str, Run]]) -> None:
    names = [f"{how}\n{kind}".replace(", ", ",\n") for kind, runs in sent.items() for how in runs]
    heights = [run.bytes_per_window for runs in sent.values() for run in runs.values()]
    inks = [AGNOSTIC if how == "agnostic" else ACTIVE for runs in sent.values() for how in runs]
    _bars(axes, names, heights, inks)
    if heights:
        axes.set_yscale("log")
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title("bytes shuffled per window, 4 workers", loc="left", fontsize=9)
