"""Estimates how many results a query emits and how much state it keeps, and warns if that is too much.

The number of rows is unknown before the query runs. The windows give two bounds: the results of a row that is alone in
its key, and the results of a key with rows all the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muntin.durations import describe
from muntin.engine.operators.operator import WindowOperator
from muntin.engine.operators.time import TimeOperator
from muntin.sizes import describe_size
from muntin.windows import CalendarWindow, CumulativeWindow, PaneWindow, SlideByTime, TimeWindow, Window

RESULTS_PER_ROW = 100_000
"""A warning appears if a row that is alone in its key leads to more results. A day by the second gives 86,400."""
RESULTS_PER_SECOND = 100
"""A warning appears if a key has more results per second of event time: a slide below ten milliseconds."""
STATE_PER_KEY = 100_000_000
"""A warning appears if the panes of a key keep more bytes: ten thousand such keys are a terabyte."""
STATE_OF_ONE_GROUP = 10_000_000_000
"""The same limit for a query without keys, which has one group."""
SHORT_PANE = 1_000
"""A warning appears if panes are shorter, in microseconds."""
_SECOND, _DAY = 1_000_000, 86_400_000_000


@dataclass(frozen=True)
class Volume:
    per_row: int
    """The results of a row that is alone in its key."""
    per_day: float
    """The results of a key with rows all the time, per day of event time."""

    @classmethod
    def of(cls, windows: Sequence[Window]) -> Volume | None:
        """The volume of time-based windows; None if there are none: then there is at most one result per row."""
        slides = [slide for slide in map(_slide, windows) if slide is not None]
        if not slides:
            return None
        per_row = sum(window.copies if isinstance(window, PaneWindow) else 1 for window in windows)
        return cls(per_row, sum(_DAY / slide for slide in slides))

    @property
    def per_second(self) -> float:
        return self.per_day * _SECOND / _DAY

    @property
    def text(self) -> str:
        rate = f"{self.per_second:,.0f} per second" if self.per_second >= 1 else f"{self.per_day:,.0f} per day"
        if self.per_day < 1:
            rate = "fewer than one per day"
        return (
            f"Results: a row that is alone in its key leads to {_counted(self.per_row)}; a key with rows all the time "
            f"gives {rate} of event time."
        )

    def warnings(self, windows: Sequence[Window]) -> list[str]:
        if self.per_row <= RESULTS_PER_ROW and self.per_second <= RESULTS_PER_SECOND:
            return []
        finest = min(windows, key=lambda window: _slide(window) or _DAY)
        return [
            f"Warning: {finest.title} emits very many results: up to {_counted(self.per_row)} for a single row, and "
            f"{self.per_second:,.0f} per second of event time for every key. Choose a coarser slide"
            f"{_such_as(finest)}, or tumbling windows and add up their results."
        ]


def _slide(window: Window) -> int | None:
    """The event time between results of a key, for windows that fix it."""
    if isinstance(window, TimeWindow):
        return window.slide
    if isinstance(window, CumulativeWindow):
        return window.step
    if isinstance(window, CalendarWindow):
        return window.shortest_step
    return window.every if isinstance(window, SlideByTime) else None


def _such_as(window: Window) -> str:
    """A round slide of about a thousandth of the window, at least a second, if it divides the window."""
    if not isinstance(window, TimeWindow | CumulativeWindow):
        return ""
    rough = max(window.longest // 1_000, _SECOND)
    slide = next((length for length in _ROUND if length >= rough), rough)
    return f", such as {describe(slide)!r}" if window.longest % slide == 0 else ""


_ROUND = [_SECOND * seconds for seconds in (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 86_400)]


def _counted(results: int) -> str:
    return f"{results:,} result{'s' * (results != 1)}"


def kept_panes(operator: TimeOperator, delay: int) -> int:
    """The number of panes of a key with rows in all of them."""
    return operator.grid.most_in(max(window.longest for window in operator.models) + delay) + 1


def leaf_bytes(operator: WindowOperator) -> int:
    return 16 + sum(_width(field.dtype) for field in operator.leaf_sets[0].fields)


def _width(dtype: str) -> int:
    return 1 if dtype in ("uint8", "bool", "|b1") else 8


def state_warnings(operator: TimeOperator, delay: int, *, keyed: bool, keeps_rows: bool) -> list[str]:
    """Warnings about the state in the panes of a key, and about short panes."""
    panes, length = kept_panes(operator, delay), operator.grid.shortest
    size = panes * leaf_bytes(operator)
    warnings = []
    if size > (STATE_PER_KEY if keyed else STATE_OF_ONE_GROUP):
        group = "a key with rows in every pane" if keyed else "the one group, with rows in every pane,"
        thousand = f" and a thousand such keys {describe_size(1000 * size)}" if keyed else ""
        rows = " The rows that the query keeps come on top: .compress() makes them smaller." if keeps_rows else ""
        warnings.append(
            f"Warning: {group} keeps about {describe_size(size)} of state ({panes:,} panes),{thousand}. Choose a "
            "coarser slide, shorter windows or a shorter watermark for fewer panes, and fewer aggregates for smaller "
            f"ones.{rows}"
        )
    slides = [slide for slide in map(_slide, operator.models) if slide is not None]
    if length < SHORT_PANE:
        warnings.append(
            f"Warning: panes of {describe(length)} are very short. They are the greatest common divisor of all sizes, "
            "slides and differences of offsets; rounder numbers make longer panes and less state."
        )
    elif length < min(slides, default=length) and warnings:
        warnings.append(
            f"Warning: panes are {describe(length)} long, shorter than any slide, as they must divide all sizes, "
            "slides and differences of offsets; rounder numbers make longer panes and less state."
        )
    return warnings
