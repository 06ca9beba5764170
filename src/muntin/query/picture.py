"""What notebooks show of a query: its windows as a timeline (SVG), and the plan in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from muntin.durations import describe
from muntin.errors import MuntinError
from muntin.panes.grid import PaneGrid
from muntin.windows import PaneWindow, SessionWindow, TupleWindow, Window

if TYPE_CHECKING:
    from muntin.query.query import Query

_LEFT, _WIDTH, _BAR, _GAP = 170, 560, 9, 3
"""Pixels: where the axis begins, how long it is, the height of a bar, and the space between two."""
_MOST_BARS = 6
"""The windows of a model that are drawn."""
_MOST_PANES = 60
"""More panes than this would be a grey area."""
_ROWS = (0.02, 0.07, 0.1, 0.16, 0.33, 0.37, 0.45, 0.48, 0.52, 0.74, 0.8, 0.93)
"""Where the rows of a key are in the picture of windows that follow them, as shares of the axis."""
_PAUSE = 0.15
"""The gap of sessions in that picture, as a share of the axis."""


def query_html(query: Query) -> str:
    """The picture and the plan, or what is missing in the query."""
    from muntin.query.explain import explanation

    try:
        query.check_complete()
        words = explanation(query)
    except MuntinError as error:
        words = f"{query!r}\n\n{error}"
    return f'<div>{timeline(query.windows)}<pre style="white-space: pre-wrap">{escape(words)}</pre></div>'


@dataclass(frozen=True)
class _Model:
    """The bars of a window model, as shares of the axis."""

    title: str
    bars: tuple[tuple[float, float], ...]
    more: bool
    """Whether it has more windows on this axis than are drawn."""

    @property
    def height(self) -> int:
        return max(24, len(self.bars) * (_BAR + _GAP) + 10)


def timeline(windows: Sequence[Window]) -> str:
    """The windows as bars over a common axis of time, with the panes as ticks."""
    over_time = [window for window in windows if isinstance(window, PaneWindow)]
    span = _span(over_time)
    models = [_over_time(window, span) if isinstance(window, PaneWindow) else _over_rows(window) for window in windows]
    height = sum(model.height for model in models) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(_in_words(windows))}" '
        f'viewBox="0 0 {_LEFT + _WIDTH + 10} {height}" width="{_LEFT + _WIDTH + 10}" height="{height}" '
        'style="max-width: 100%" fill="currentColor" font-family="sans-serif" font-size="12">'
    ]
    y = 6
    for model in models:
        parts += _drawn(model, y)
        y += model.height
    parts += _axis(over_time, span, y)
    if len(over_time) < len(windows):
        places = (_LEFT + share * _WIDTH for share in _ROWS)
        parts += [f'<circle cx="{place:.1f}" cy="{y + 4}" r="3" fill-opacity="0.8"/>' for place in places]
    return "".join([*parts, "</svg>"])


def _span(windows: Sequence[PaneWindow]) -> int:
    """The stretch of time that is drawn: it has the first window of every model, and some time after it."""
    lengths = [max(window.longest * 3 // 2, int(window.end(_first(window)))) for window in windows]
    return max(lengths, default=1)


def _first(window: PaneWindow) -> int:
    """The first window that begins on the axis, which begins at time 0."""
    return int(window.last_containing(np.array([-1]))[0]) + 1


def _over_time(window: PaneWindow, span: int) -> _Model:
    """The real windows on the axis."""
    first, last = _first(window), window.last_ended(span)
    numbers = range(first, min(last, first + _MOST_BARS - 1) + 1)
    bars = tuple((window.start(number) / span, window.end(number) / span) for number in numbers)
    return _Model(window.title, bars, last - first + 1 > len(bars))


def _over_rows(window: Window) -> _Model:
    """Windows that follow the rows of a key, over rows that only illustrate that."""
    bars: list[tuple[float, float]] = []
    if isinstance(window, SessionWindow):
        for place in _ROWS:
            if bars and place < bars[-1][1]:
                bars[-1] = (bars[-1][0], place + _PAUSE)
            else:
                bars.append((place, place + _PAUSE))
        return _Model(window.title, tuple((begin, min(end, 1.0)) for begin, end in bars), False)
    bars = [(_ROWS[first], _ROWS[first + 3]) for first in (0, 3, 6, 8)]
    return _Model(window.title, tuple(bars), True)


def _drawn(model: _Model, y: int) -> list[str]:
    title = model.title if len(model.title) <= 26 else model.title[:25] + "…"
    full = f"<title>{escape(model.title)}</title>"
    parts = [f'<text x="{_LEFT - 10}" y="{y + 11}" text-anchor="end">{full}{escape(title)}</text>']
    for number, (begin, end) in enumerate(model.bars):
        x, width = _LEFT + begin * _WIDTH, max((end - begin) * _WIDTH - 1, 2)
        top = y + 2 + number * (_BAR + _GAP)
        parts.append(f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="2" fill="#4477aa"/>')
    if model.more:
        parts.append(f'<text x="{_LEFT + _WIDTH}" y="{y + 11}" text-anchor="end" fill-opacity="0.7">…</text>')
    return parts


def _axis(over_time: Sequence[PaneWindow], span: int, y: int) -> list[str]:
    line = f'<path d="M{_LEFT} {y + 4}h{_WIDTH}" stroke="currentColor" stroke-opacity="0.6" fill="none"/>'
    if not over_time:
        label = "rows of a key, in event-time order (they only illustrate the windows)"
        return [line, f'<text x="{_LEFT}" y="{y + 22}" fill-opacity="0.7">{label}</text>']
    grid = PaneGrid.of(over_time)
    ticks = ""
    if not grid.is_uneven and span // grid.length <= _MOST_PANES:
        first = grid.offset % grid.length
        places = (_LEFT + time * _WIDTH / span for time in range(first, span + 1, grid.length))
        ticks = "".join(f"M{place:.1f} {y}v8" for place in places)
    panes = "panes of uneven lengths" if grid.is_uneven else f"panes of {describe(grid.length)}"
    return [
        line,
        f'<path d="{ticks}" stroke="currentColor" stroke-opacity="0.6" fill="none"/>' if ticks else "",
        f'<text x="{_LEFT}" y="{y + 22}" fill-opacity="0.7">{panes}</text>',
        f'<text x="{_LEFT + _WIDTH}" y="{y + 22}" text-anchor="end" fill-opacity="0.7">{describe(span)}</text>',
    ]


def _in_words(windows: Sequence[Window]) -> str:
    shapes = "; ".join(window.title for window in windows)
    after_rows = " Some follow the rows of a key." if any(isinstance(each, TupleWindow) for each in windows) else ""
    return f"Windows over time: {shapes}.{after_rows}"
