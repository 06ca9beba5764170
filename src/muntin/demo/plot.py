"""The picture of the year: a band per airport, drawn from the three windows of one query."""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from muntin.arrays import Array
from muntin.demo.queries import DAY, HOURS, WEEK
from muntin.demo.worst import CITIES, WorstDay

_PAPER, _INK, _FAINT = "#fbf8f3", "#23272e", "#85837e"
_DAY_COLOUR, _WEEK_COLOUR = "#df8a34", "#7d1d3f"
_HEAT = LinearSegmentedColormap.from_list("delay", ["#f1ebdf", "#f7d794", "#ee9b4b", "#cf4a3c", "#7d1d3f", "#2f0d28"])
_SCALE = Normalize(0, 90)  # minutes
_MICROSECONDS_A_DAY = 24 * 60 * 60 * 1_000_000
_STEPS_A_DAY = _MICROSECONDS_A_DAY // HOURS.slide
_FIRST_HOUR = 7
"""Before that, the last six hours have almost no flights."""
_MIDDLE_OF_A_MONTH = 15
_LEFT, _RIGHT = 0.06, 0.975


@dataclass(frozen=True)
class _Span:
    """The days that are drawn, from `first` to before `last`, as days since 1970 (matplotlib's unit)."""

    first: int
    last: int

    @classmethod
    def of(cls, table: pa.Table) -> _Span:
        bounds = pc.min_max(table["window_end"].cast(pa.int64())).as_py()
        return cls(bounds["min"] // _MICROSECONDS_A_DAY, -(-bounds["max"] // _MICROSECONDS_A_DAY))


def draw(answers: Mapping[str, pa.Table], worst: Sequence[WorstDay], path: Path) -> None:
    """`answers` are the sorted results by the title of their window."""
    airports = sorted(set(answers[WEEK.title]["origin"].to_pylist()))
    height = 2.75 * len(airports) + 2.1
    figure = Figure(figsize=(13, height), facecolor=_PAPER)
    edges = {"left": _LEFT, "right": _RIGHT, "top": 1 - 1.4 / height, "bottom": 1.0 / height}
    bands = figure.add_gridspec(len(airports), 1, hspace=0.22, **edges)
    span = _Span.of(answers[DAY.title])
    ceiling = 1.08 * max([60.0, *(day.mean_delay for day in worst)])
    for row, airport in enumerate(airports):
        answers_of_airport = {
            title: table.filter(pc.equal(table["origin"], airport)) for title, table in answers.items()
        }
        cells = bands[row].subgridspec(2, 1, hspace=0.1)
        lines, heat = figure.add_subplot(cells[0]), figure.add_subplot(cells[1])
        _draw_lines(lines, answers_of_airport, next((day for day in worst if day.airport == airport), None), ceiling)
        _draw_heat(heat, answers_of_airport[HOURS.title], span)
        name = CITIES.get(airport, airport)
        lines.set_title(name, loc="left", color=_INK, fontsize=15, fontweight="bold", pad=7)
        for axes in (lines, heat):
            _dress(axes, span, with_months=axes is heat and airport == airports[-1])
    _title(figure, height)
    _legend(figure, height)
    figure.savefig(path, dpi=150)


def _draw_lines(axes: Axes, answers: Mapping[str, pa.Table], worst: WorstDay | None, ceiling: float) -> None:
    day_ends, day_means = _ends(answers[DAY.title]), _means(answers[DAY.title])
    axes.fill_between(day_ends, 0, np.maximum(day_means, 0), color=_DAY_COLOUR, alpha=0.25, linewidth=0)
    axes.plot(day_ends, day_means, color=_DAY_COLOUR, linewidth=0.8)
    axes.plot(_ends(answers[WEEK.title]), _means(answers[WEEK.title]), color=_WEEK_COLOUR, linewidth=2.3)
    axes.set_ylim(-4, ceiling)
    axes.set_yticks([0, 30, 60, 90], ["0", "30", "60", "90 min"])
    axes.grid(axis="y", color=_INK, alpha=0.08, linewidth=0.8)
    if worst is not None:
        _point_out(axes, worst)


def _point_out(axes: Axes, worst: WorstDay) -> None:
    x = worst.end.timestamp() * 1_000_000 / _MICROSECONDS_A_DAY
    text = f"{worst.mean_delay:.0f} minutes in the 24 hours from {worst.start.day} {worst.start:%B, %H:%M}"
    if worst.cancelled:
        text += f"; {worst.cancelled_share:.0%} cancelled"
    axes.plot([x], [worst.mean_delay], "o", color=_DAY_COLOUR, markersize=5, markeredgecolor=_INK, clip_on=False)
    axes.annotate(
        text,
        (x, worst.mean_delay),
        xytext=(9, -3.5),
        textcoords="offset points",
        color=_INK,
        fontsize=9.5,
        path_effects=[patheffects.withStroke(linewidth=3, foreground=_PAPER)],
    )


def _draw_heat(axes: Axes, hours: pa.Table, span: _Span) -> None:
    """A column per day and a cell per slide: the mean delay of the six hours before it."""
    step = np.asarray(hours["window_end"].cast(pa.int64())) // HOURS.slide
    day, slot = np.divmod(step - span.first * _STEPS_A_DAY, _STEPS_A_DAY)
    inside = (day >= 0) & (day < span.last - span.first)
    image = np.full((_STEPS_A_DAY, span.last - span.first), np.nan)
    image[slot[inside], day[inside]] = _means(hours)[inside]
    axes.imshow(
        image,
        aspect="auto",
        origin="lower",
        extent=(span.first, span.last, 0, 24),
        cmap=_HEAT,
        norm=_SCALE,
        interpolation="nearest",
    )
    axes.set_ylim(_FIRST_HOUR, 24)
    axes.set_yticks([8, 12, 16, 20], ["8:00", "12:00", "16:00", "20:00"])


def _dress(axes: Axes, span: _Span, with_months: bool) -> None:
    axes.set_facecolor(_PAPER)
    starts, names = _months(span)
    axes.set_xticks(starts, [""] * len(starts))
    middles = starts + _MIDDLE_OF_A_MONTH
    axes.set_xticks(middles, names if with_months else [""] * len(names), minor=True)
    axes.set_xlim(span.first, span.last)
    axes.grid(axis="x", color=_INK, alpha=0.13, linewidth=0.7)
    axes.tick_params(axis="both", which="both", length=0, colors=_FAINT, labelsize=9)
    axes.tick_params(axis="x", which="minor", labelsize=10.5, pad=6)
    for side in axes.spines.values():
        side.set_visible(False)


def _months(span: _Span) -> tuple[Array, list[str]]:
    """The first day and the name of every month that begins in the span."""
    first, last = (np.datetime64(day, "D").astype("datetime64[M]") for day in (span.first, span.last - 1))
    months = np.arange(first, last + 1)
    return months.astype("datetime64[D]").astype(np.int64), [
        calendar.month_name[month.month] for month in months.tolist()
    ]


def _title(figure: Figure, height: float) -> None:
    figure.text(_LEFT, 1 - 0.48 / height, "A year of waiting", color=_INK, fontsize=26, weight="bold", va="center")
    subtitle = (
        "Mean departure delays at New York's airports in 2013: three sliding windows over one stream, in one query"
    )
    figure.text(_LEFT, 1 - 0.86 / height, subtitle, color=_FAINT, fontsize=12.5, va="center")


def _legend(figure: Figure, height: float) -> None:
    y = 0.38 / height
    small: dict[str, Any] = {"color": _INK, "fontsize": 10, "va": "center"}
    for x, colour, width, text in (
        (_LEFT, _WEEK_COLOUR, 2.3, "the last 7 days, every 6 hours"),
        (0.3, _DAY_COLOUR, 1.4, "the last day, every 10 minutes"),
    ):
        figure.add_artist(Line2D([x, x + 0.024], [y, y], color=colour, linewidth=width))
        figure.text(x + 0.031, y, text, **small)
    bar = figure.add_axes((0.53, y - 0.06 / height, 0.075, 0.12 / height))
    scale = figure.colorbar(ScalarMappable(_SCALE, _HEAT), cax=bar, orientation="horizontal")
    scale.outline.set_visible(False)
    scale.set_ticks([])
    text = f"the last 6 hours, every 15 minutes, by time of day: 0 to {_SCALE.vmax:.0f} min"
    figure.text(0.613, y, text, **small)


def _ends(table: pa.Table) -> Array:
    return np.asarray(table["window_end"].cast(pa.int64())) / _MICROSECONDS_A_DAY


def _means(table: pa.Table) -> Array:
    return np.asarray(table["mean_delay"].fill_null(np.nan))
