"""The chart of the shed benchmark: CoD's figures 2 and 8 to 10, and a stream under overload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from muntin.bench.shed_core import AT, Compared, Drift, Shed
from muntin.bench.shed_overload import Driven

NORMAL, UNIFORM, CONCEPT, LIMIT = "#888888", "#c8553d", "#0b6e4f", "#333333"


@dataclass
class Picture:
    """The data of the chart, panel by panel."""

    means: list[Compared] = field(default_factory=list)
    fits: list[Compared] = field(default_factory=list)
    drifts: dict[str, Drift] = field(default_factory=dict)
    target: float = 0.0
    """The target latency of the stream under overload, in seconds."""
    shed: Driven | None = None
    plain: Driven | None = None
    """The stream under overload, with and without shedding."""


def draw(picture: Picture, path: Path) -> None:
    figure, axes = plt.subplots(4, 2, figsize=(13, 16), layout="constrained")
    _drift(axes[0][0], picture.drifts)
    _latencies(axes[0][1], picture.means, f"window latency at {AT:.0%}, ms: means (fig. 8)")
    _latencies(axes[1][0], picture.fits, f"window latency at {AT:.0%}, ms: a fit over the window (fig. 8)")
    _errors(axes[1][1], picture.means)
    _by_share(axes[2][0], picture.means)
    _durations(axes[2][1], picture)
    _rates(axes[3][0], picture)
    _lags(axes[3][1], picture)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.25)
    figure.suptitle("Load shedding: concept-driven, uniform, and none", weight="bold", ha="left", x=0.01)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _drift(axes: Any, drifts: dict[str, Drift]) -> None:
    for shift, ink, label, values_of_data_sets in (
        (-0.2, CONCEPT, "overlap", [drift.overlap for drift in drifts.values()]),
        (0.2, UNIFORM, "distance", [drift.distance for drift in drifts.values()]),
    ):
        axes.bar(
            np.arange(len(values_of_data_sets)) + shift,
            [values.mean() for values in values_of_data_sets],
            0.38,
            color=ink,
            label=label,
        )
        for position, values in enumerate(values_of_data_sets):  # a line from the smallest to the largest
            axes.plot([position + shift] * 2, [values.min(), values.max()], color="black", linewidth=1)
    axes.set_xticks(range(len(drifts)), list(drifts), fontsize=7, rotation=20)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("concept overlap and distance of neighbouring windows (fig. 2)", loc="left", fontsize=9)


def _latencies(axes: Any, comparisons: Sequence[Compared], title: str) -> None:
    _bars(axes, comparisons, -0.27, NORMAL, "normal", [comparison.normal for comparison in comparisons])
    _bars(axes, comparisons, 0.0, UNIFORM, "uniform", [comparison.uniform[AT] for comparison in comparisons])
    _bars(axes, comparisons, 0.27, CONCEPT, "concept-driven", [comparison.concept[AT] for comparison in comparisons])
    _logarithmic(axes)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title(f"{title}; line up to the 95th percentile", loc="left", fontsize=9)


def _logarithmic(axes: Any) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _bars(
    axes: Any, comparisons: Sequence[Compared], shift: float, ink: str, label: str, sheds: Sequence[Shed]
) -> None:
    heights = [shed.seconds * 1e3 for shed in sheds]
    axes.bar(np.arange(len(sheds)) + shift, heights, 0.25, color=ink, label=label)
    for position, shed in enumerate(sheds):
        axes.plot([position + shift] * 2, [shed.seconds * 1e3, shed.p95 * 1e3], color="black", linewidth=1)
    axes.set_xticks(
        range(len(comparisons)), [comparison.data.name for comparison in comparisons], fontsize=7, rotation=20
    )


def _errors(axes: Any, comparisons: Sequence[Compared]) -> None:
    for shift, ink, label in ((-0.2, UNIFORM, "uniform"), (0.2, CONCEPT, "concept-driven")):
        sheds = [(comparison.uniform if label == "uniform" else comparison.concept)[AT] for comparison in comparisons]
        axes.bar(np.arange(len(sheds)) + shift, [shed.error for shed in sheds], 0.38, color=ink, label=label)
        for position, shed in enumerate(sheds):
            axes.plot([position + shift] * 2, [shed.error, shed.p95_error], color="black", linewidth=1)
    axes.axhline(0.1, color=LIMIT, linewidth=1, linestyle=":")
    axes.set_xticks(
        range(len(comparisons)), [comparison.data.name for comparison in comparisons], fontsize=7, rotation=20
    )
    axes.legend(frameon=False, fontsize=8)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.set_title(f"relative error at {AT:.0%}; line up to the 95th percentile (fig. 9)", loc="left", fontsize=9)


def _by_share(axes: Any, comparisons: Sequence[Compared]) -> None:
    """Figure 10: error by the share actually kept, which exceeds the requested one if groups are rare."""
    marks = "os^Dv*P"
    grouped = [comparison for comparison in comparisons if comparison.data.keys]
    for index, comparison in enumerate(grouped):
        for sheds, ink in ((comparison.uniform, UNIFORM), (comparison.concept, CONCEPT)):
            points = sorted((shed.kept, shed.error) for shed in sheds.values())
            label = comparison.data.name if ink == CONCEPT else None
            axes.plot(*zip(*points, strict=True), f"-{marks[index]}", color=ink, markersize=4, label=label)
    axes.set(xscale="log", xlabel="share of the tuples that was kept")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("error by share of data: uniform red, concept-driven green (fig. 10)", loc="left", fontsize=9)


def _durations(axes: Any, picture: Picture) -> None:
    _over_time(axes, picture, "seconds")
    axes.axhline(picture.target, color=LIMIT, linewidth=1, linestyle=":")
    _logarithmic(axes)
    axes.set_title("overload: batch duration, s, and the target latency", loc="left", fontsize=9)


def _rates(axes: Any, picture: Picture) -> None:
    _over_time(axes, picture, "rate")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.set_title("overload: share shed", loc="left", fontsize=9)


def _lags(axes: Any, picture: Picture) -> None:
    _over_time(axes, picture, "lag")
    for driven, ink in ((picture.plain, NORMAL), (picture.shed, CONCEPT)):
        if driven is not None:
            axes.plot([driven.seconds], [driven.backlog], "x", color=ink)
    axes.set_title("overload: seconds of input behind, and (x) when stopped", loc="left", fontsize=9)


def _over_time(axes: Any, picture: Picture, what: str) -> None:
    for driven, ink, label in ((picture.plain, NORMAL, "normal"), (picture.shed, CONCEPT, "target latency")):
        if driven is not None:
            done = [batch.begun + batch.seconds for batch in driven.batches]
            axes.plot(
                done, [getattr(batch, what) for batch in driven.batches], "-o", color=ink, markersize=3, label=label
            )
    axes.set_xlabel("seconds")
    axes.legend(frameon=False, fontsize=8)
