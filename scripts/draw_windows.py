"""Draw docs/windows/*.svg: twelve tuples, and the windows of every model over them, computed by one query.

Run it with `make pictures`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.testing import Stream

TARGET = Path(__file__).parents[1] / "docs" / "windows"

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MINUTES = (2, 5, 9, 14, 17, 24, 41, 44, 46, 49, 55, 58)
KILOMETRES = (100, 102, 106, 112, 119, 126, 126, 131, 128, 137, 145, 149)
"""The odometer, with one wrong reading."""


@dataclass(frozen=True)
class Picture:
    """The picture of a model."""

    code: str
    window: W.Window
    caption: str
    triggers: Literal["nothing", "tuples", "times"] = "nothing"
    """What ends each window, if it is neither the calendar nor a tuple of the window."""


PICTURES = {
    "tumbling": Picture(
        'W.tumbling("15 minutes")',
        W.tumbling("15 minutes"),
        "One after the other: every tuple is in exactly one.",
    ),
    "sliding": Picture(
        'W.sliding("30 minutes", "15 minutes")',
        W.sliding("30 minutes", "15 minutes"),
        "The last half hour, every quarter of an hour: every tuple is in two.",
    ),
    "cumulative": Picture(
        'W.cumulative("30 minutes", "10 minutes")',
        W.cumulative("30 minutes", "10 minutes"),
        "The half hour so far, every ten minutes. Nothing came from 30 to 40, so that window has no result.",
    ),
    "session": Picture(
        'W.session("6 minutes")',
        W.session("6 minutes"),
        "From the first tuple to six minutes after the last. 49 and 55 are six minutes apart: still one session.",
    ),
    "count": Picture(
        'W.count(4, 2, max_wait="15 minutes")',
        W.count(4, 2, "15 minutes"),
        "The last four tuples, every two. Dashed: nothing came for 15 minutes, so the window is shown as it stands.",
    ),
    "slide_by_tuple": Picture(
        'W.slide_by_tuple("10 minutes", 3)',
        W.slide_by_tuple("10 minutes", 3),
        "The last ten minutes, every third tuple. The tuple at 14 is in no window.",
        triggers="tuples",
    ),
    "slide_by_time": Picture(
        'W.slide_by_time(4, "10 minutes")',
        W.slide_by_time(4, "10 minutes"),
        "The last four tuples, every ten minutes. Nothing new came from 30 to 40: the window is repeated.",
        triggers="times",
    ),
    "delta": Picture(
        'W.delta("km", 20, 10)',
        W.delta("km", 20, 10),
        "The last 20 km, whenever more than 10 km have been driven. The cross went backwards: a bad row.",
        triggers="tuples",
    ),
}


@dataclass(frozen=True)
class Answer:
    """One result. Times are minutes; `contents` are the positions of its tuples."""

    id: int
    start: float
    end: float
    partial: bool
    count: int
    contents: tuple[int, ...]


SCHEMA = "at timestamp, km long, bit long"
TUPLES = [
    (EPOCH + timedelta(minutes=minute), km, 1 << position)
    for position, (minute, km) in enumerate(zip(MINUTES, KILOMETRES, strict=True))
]
"""Each has another bit, so the sum of the bits encodes the contents of a window."""


def answers() -> dict[str, list[Answer]]:
    """The results of every model, from one query over a stream of the tuples."""
    models = [picture.window for picture in PICTURES.values()]
    stream = Stream(
        lambda tuples: muntin.over(tuples, *models, time="at", watermark="1 hour").agg(n=A.count(), bits=A.sum("bit")),
        SCHEMA,
    )
    stream.batch(TUPLES)
    stream.watermark(EPOCH + timedelta(days=1))
    results_of_models: dict[str, list[Answer]] = {name: [] for name in PICTURES}
    names = {picture.window.title: name for name, picture in PICTURES.items()}
    for row in stream.results:
        contents = tuple(position for position in range(len(MINUTES)) if row["bits"] >> position & 1)
        start, end = ((row["window"][bound] - EPOCH) / timedelta(minutes=1) for bound in ("start", "end"))
        partial = bool(row["partial"])
        answer = Answer(row["window_id"], start, end, partial, row["n"], contents)
        results_of_models[names[row["window_name"]]].append(answer)
    for answers_of_model in results_of_models.values():
        answers_of_model.sort(key=lambda answer: (answer.id, not answer.partial))
    return results_of_models


_PAPER, _INK, _FAINT = "#fbf8f3", "#23272e", "#85837e"
_BAR, _TRIGGER = "#df8a34", "#7d1d3f"
_FIRST, _LAST = -16.0, 76.0
"""The time range of the pictures, in minutes."""
_MARGIN = 0.022
_ID_AT, _COUNT_AT = 0.915, 0.978
"""The positions of the columns of numbers, relative to the width."""


def draw(name: str, answers: Sequence[Answer], path: Path) -> None:
    """Draw one model: the tuples, and below them a bar per window with its contents."""
    picture = PICTURES[name]
    row, chart = 0.36, 1.3 if name == "delta" else 0.0
    rows, above, below = len(answers), 0.78, 0.5
    height = above + 0.72 + chart + row * rows + below
    figure = Figure(figsize=(9.6, height), facecolor=_PAPER)
    figure.text(_MARGIN, 1 - 0.34 / height, picture.code, color=_INK, fontsize=14, family="monospace", weight="bold")
    figure.text(_MARGIN, 1 - 0.62 / height, picture.caption, color=_FAINT, fontsize=10)
    axes = figure.add_axes((_MARGIN, below / height, 0.84, 1 - (above + below) / height))
    # One unit of y is one window. The tuples are above the windows.
    axes.set_ylim(0, (height - above - below) / row)
    _axis(axes)
    axes.set_xlabel("event time in minutes", color=_FAINT, fontsize=9)
    for position, answer in enumerate(answers):
        _bar(axes, answer, rows - 1 - position, picture.triggers)
        y = (below + (rows - position - 0.5) * row) / height
        for x, text in ((_ID_AT, f"{answer.id:,}".replace("-", "−")), (_COUNT_AT, str(answer.count))):
            figure.text(x, y, text, color=_INK, fontsize=9.5, ha="right", va="center_baseline")
    for x, text in ((_ID_AT, "window_id"), (_COUNT_AT, "count")):
        figure.text(x, (below + (rows + 0.16) * row) / height, text, color=_FAINT, fontsize=9, ha="right")
    axes.text(_FIRST, rows + 0.95, "odometer, km" if chart else "tuples", color=_FAINT, fontsize=9, va="center")
    _tuples(axes, picture, answers, rows + 0.95, 0.85 * chart / row)
    save(figure, path)


def draw_all(answers_of_models: Mapping[str, Sequence[Answer]], path: Path) -> None:
    """Draw all models over the same tuples."""
    row, above, below = 0.17, 0.2, 0.5
    rows = sum(len(answers_of_model) + 1 for answers_of_model in answers_of_models.values()) - 1
    height = above + row * (rows + 1.6) + below
    figure = Figure(figsize=(9.6, height), facecolor=_PAPER)
    axes = figure.add_axes((0.27, below / height, 0.71, 1 - (above + below) / height))
    axes.set_ylim(0, (height - above - below) / row)
    _axis(axes)
    axes.set_xlabel("event time in minutes", color=_FAINT, fontsize=9)
    bottom = rows
    for name, answers_of_model in answers_of_models.items():
        picture = PICTURES[name]
        for answer in answers_of_model:
            bottom -= 1
            _bar(axes, answer, bottom, picture.triggers, dot=2.6)
        y = (below + (bottom + len(answers_of_model) / 2) * row) / height
        figure.text(
            _MARGIN,
            y,
            picture.window.label,
            color=_INK,
            fontsize=9,
            family="monospace",
            va="center",
        )
        bottom -= 1
        if bottom > 0:
            axes.axhline(bottom + 0.5, color=_INK, alpha=0.12, linewidth=0.8, xmin=-0.36, clip_on=False)
    _tuples(axes, PICTURES["tumbling"], answers_of_models["tumbling"], rows + 1.1, 0, labelled=False)
    figure.text(_MARGIN, (below + (rows + 1.1) * row) / height, "twelve tuples", color=_FAINT, fontsize=9, va="center")
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """The same drawing is the same file: a picture changes only if its windows do."""
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path, metadata={"Date": None})


def _axis(axes: Axes) -> None:
    axes.set_facecolor("none")
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlim(_FIRST, _LAST)
    axes.set_yticks([])
    ticks = range(-10, 71, 10)
    axes.set_xticks(ticks, [f"{tick}".replace("-", "−") for tick in ticks])
    axes.tick_params(axis="x", length=0, colors=_FAINT, labelsize=9)
    axes.grid(axis="x", color=_INK, alpha=0.07, linewidth=0.8)
    axes.set_axisbelow(True)


def _bar(axes: Axes, answer: Answer, bottom: float, triggers: str, dot: float = 4.5) -> None:
    box = FancyBboxPatch(
        (answer.start, bottom + 0.17),
        answer.end - answer.start,
        0.66,
        boxstyle="round,pad=0,rounding_size=0.3",
        mutation_aspect=0.3,
        facecolor=to_rgba(_BAR, 0.1 if answer.partial else 0.32),
        edgecolor=to_rgba(_BAR, 0.9),
        linestyle=(0, (4, 3)) if answer.partial else "solid",
        linewidth=1.0,
    )
    axes.add_patch(box)
    times = [MINUTES[position] for position in answer.contents]
    axes.plot(times, [bottom + 0.5] * len(times), "o", color=_INK, markersize=dot, zorder=4)
    if triggers != "nothing":
        axes.plot([answer.end] * 2, [bottom + 0.08, bottom + 0.92], color=_TRIGGER, linewidth=dot / 2, zorder=3)


def _tuples(
    axes: Axes, picture: Picture, answers: Sequence[Answer], bottom: float, climb: float, labelled: bool = True
) -> None:
    """Draw the tuples above the windows, hollow if no window contains them. `climb` is the height of the odometer."""
    contained = {MINUTES[position] for answer in answers for position in answer.contents}
    triggers = {answer.end for answer in answers} if picture.triggers == "tuples" else set()
    if climb:
        triggers.add(MINUTES[0])  # the first tuple triggers an empty window, which has no result
    lowest_km, highest_km = min(KILOMETRES), max(KILOMETRES)
    valid: list[tuple[float, float]] = []
    highest = lowest_km
    for minute, km in zip(MINUTES, KILOMETRES, strict=True):
        y = bottom + climb * (km - lowest_km) / (highest_km - lowest_km)
        axes.plot([minute, minute], [0, y], color=_INK, alpha=0.1, linewidth=0.8, zorder=0)
        colour = _TRIGGER if minute in triggers else _INK
        if climb and km < highest:
            axes.plot([minute], [y], "x", color=_INK, markersize=7, markeredgewidth=2, zorder=5)
        else:
            fill = colour if minute in contained | triggers else _PAPER
            axes.plot([minute], [y], "o", color=fill, markeredgecolor=colour, markersize=8, zorder=5)
            valid.append((minute, y))
        label_above = not climb or km >= highest
        highest = max(highest, km)
        if not labelled:
            continue
        axes.annotate(
            str(km if climb else minute),
            (minute, y),
            xytext=(0, 8 if label_above else -8),
            textcoords="offset points",
            ha="center",
            va="bottom" if label_above else "top",
            color=colour,
            fontsize=7.8,
        )
    if climb:
        axes.plot(*zip(*valid, strict=True), color=_INK, alpha=0.35, linewidth=1.2, zorder=1)


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    answers_of_models = answers()
    for name in PICTURES:
        draw(name, answers_of_models[name], TARGET / f"{name}.svg")
    draw_all(answers_of_models, TARGET / "all.svg")
    for path in sorted(TARGET.glob("*.svg")):
        print(f"{path.relative_to(TARGET.parents[1])}: {path.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
