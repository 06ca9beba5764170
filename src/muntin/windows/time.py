"""Time windows: tumbling and sliding (Mencagli 2018, formula 2).

    E(w) = { t | offset + w·slide <= τ(t) < offset + w·slide + size }

aligned like Spark's `window()`. The mapping of a tuple at time τ is the windows `w` with

    floor((τ - offset - size) / slide) < w <= floor((τ - offset) / slide)

All times are integer microseconds and all divisions round down, so times before 1970 need no special case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, overload

import numpy as np

from muntin.arrays import Int64Array
from muntin.durations import Duration, describe, microseconds, positive_microseconds
from muntin.windows.calendar import CalendarWindow, in_zone
from muntin.windows.model import ForwardContext, Ids, PaneWindow, Parameters, check_name


@dataclass(frozen=True, repr=False)
class TimeWindow(PaneWindow):
    """A window of `size` every `slide`, shifted by `offset`, all in microseconds."""

    size: int
    slide: int
    forward_context: ClassVar[ForwardContext] = "free"
    extent_formula: ClassVar[str] = "E(w) = { t | w·slide <= τ(t) < w·slide + size }"

    @property
    def parameters(self) -> tuple[str, Parameters]:
        shift = {"offset": describe(self.offset)} if self.offset else {}
        if self.slide == self.size:
            return "tumbling", {"size": describe(self.size), **shift}
        return "sliding", {"size": describe(self.size), "slide": describe(self.slide), **shift}

    @property
    def label(self) -> str:
        shift = f", offset={describe(self.offset)}" if self.offset else ""
        if self.slide == self.size:
            return f"tumbling({describe(self.size)}{shift})"
        return f"sliding({describe(self.size)}, {describe(self.slide)}{shift})"

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.size, self.slide

    @property
    def longest(self) -> int:
        return self.size

    @property
    def copies(self) -> int:
        return -(-self.size // self.slide)

    @property
    def has_gaps(self) -> bool:
        return self.slide > self.size

    def start(self, window_id: Ids) -> Ids:
        return self.offset + window_id * self.slide

    def end(self, window_id: Ids) -> Ids:
        return self.start(window_id) + self.size

    def first_containing(self, times: Int64Array) -> Int64Array:
        return np.floor_divide(times - (self.offset + self.size), self.slide) + 1

    def last_containing(self, times: Int64Array) -> Int64Array:
        return np.floor_divide(times - self.offset, self.slide)

    def last_ended(self, time: int) -> int:
        return (time - self.offset - self.size) // self.slide


@overload
def tumbling(size: Duration, *, offset: Duration = ..., zone: None = None, name: str | None = None) -> TimeWindow: ...
@overload
def tumbling(size: Duration, *, offset: Duration = ..., zone: str, name: str | None = None) -> CalendarWindow: ...
def tumbling(
    size: Duration, *, offset: Duration = "0 seconds", zone: str | None = None, name: str | None = None
) -> TimeWindow | CalendarWindow:
    """Windows of `size`, back to back: every tuple is in exactly one.

    With a `zone`, windows of whole days begin at midnight there, as those of `calendar`.

    Examples
    --------
    >>> windows_of(W.tumbling("15 minutes"))
    12:00 to 12:15: 4
    12:15 to 12:30: 1
    12:30 to 12:45: 1
    12:45 to 13:00: 1
    """
    return _time_window(size, size, offset, name) if zone is None else in_zone(size, size, zone, name, offset)


@overload
def sliding(
    size: Duration, slide: Duration, *, offset: Duration = ..., zone: None = None, name: str | None = None
) -> TimeWindow: ...
@overload
def sliding(
    size: Duration, slide: Duration, *, offset: Duration = ..., zone: str, name: str | None = None
) -> CalendarWindow: ...
def sliding(
    size: Duration,
    slide: Duration,
    *,
    offset: Duration = "0 seconds",
    zone: str | None = None,
    name: str | None = None,
) -> TimeWindow | CalendarWindow:
    """Windows of `size`, one every `slide`. If the slide is larger than the size, tuples in between are left out.

    With a `zone`, windows of whole days begin at midnight there, as those of `calendar`.

    Examples
    --------
    >>> windows_of(W.sliding("30 minutes", "15 minutes"))
    11:45 to 12:15: 4
    12:00 to 12:30: 5
    12:15 to 12:45: 2
    12:30 to 13:00: 2
    """
    return _time_window(size, slide, offset, name) if zone is None else in_zone(size, slide, zone, name, offset)


def _time_window(size: Duration, slide: Duration, offset: Duration, name: str | None) -> TimeWindow:
    size_us = positive_microseconds(size, "size")
    slide_us = positive_microseconds(slide, "slide")
    shift = microseconds(offset, "offset")
    # Offsets that differ by a multiple of the slide give the same windows; normalised, also the same ids and panes.
    return TimeWindow(check_name(name), shift % slide_us, size_us, slide_us)
