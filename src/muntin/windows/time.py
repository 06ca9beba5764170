"""Time windows: tumbling and sliding.

Window `i` has the extent `[offset + i * slide, offset + i * slide + size)`, the alignment of Spark's `window()`.
A tuple at time `t` is in the windows `i` with

    floor((t - offset - size) / slide) < i <= floor((t - offset) / slide)

All times are integer microseconds and all divisions round down, so times before 1970 need no special case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.arrays import Int64Array
from muntin.durations import Duration, describe, microseconds, positive_microseconds
from muntin.errors import MuntinError
from muntin.windows.model import ForwardContext, Window


@dataclass(frozen=True)
class TimeWindow(Window):
    """A window of `size` every `slide`, shifted by `offset`; all in microseconds."""

    size: int
    slide: int
    offset: int
    forward_context: ClassVar[ForwardContext] = "free"

    @property
    def label(self) -> str:
        shift = f", offset={describe(self.offset)}" if self.offset else ""
        if self.slide == self.size:
            return f"tumbling({describe(self.size)}{shift})"
        return f"sliding({describe(self.size)}, {describe(self.slide)}{shift})"

    @property
    def copies(self) -> int:
        """How many windows hold a tuple at most: how often Spark's `window()` copies each row."""
        return -(-self.size // self.slide)

    def start(self, window_id: int) -> int:
        return self.offset + window_id * self.slide

    def end(self, window_id: int) -> int:
        return self.start(window_id) + self.size

    def first_containing(self, times: Int64Array) -> Int64Array:
        """The mapping, lower end: the id of the first window that holds each time."""
        return np.floor_divide(times - (self.offset + self.size), self.slide) + 1

    def last_containing(self, times: Int64Array) -> Int64Array:
        """The mapping, upper end. Smaller than the first where a time falls between windows (slide > size)."""
        return np.floor_divide(times - self.offset, self.slide)

    def last_ended(self, time: int) -> int:
        """The id of the last window whose end is at or before `time`."""
        return (time - self.offset - self.size) // self.slide


def tumbling(size: Duration, *, offset: Duration = "0 seconds", name: str | None = None) -> TimeWindow:
    """Windows of `size`, one after the other: every tuple is in exactly one."""
    return _time_window(size, size, offset, name)


def sliding(size: Duration, slide: Duration, *, offset: Duration = "0 seconds", name: str | None = None) -> TimeWindow:
    """Windows of `size`, one every `slide`. With a slide larger than the size, tuples between windows are left out."""
    return _time_window(size, slide, offset, name)


def _time_window(size: Duration, slide: Duration, offset: Duration, name: str | None) -> TimeWindow:
    size_us = positive_microseconds(size, "size")
    slide_us = positive_microseconds(slide, "slide")
    shift = microseconds(offset, "offset")
    if name is not None and (not isinstance(name, str) or not name):
        raise MuntinError(f"name must be a non-empty string, got {name!r}; it labels the window in the results.")
    # Offsets a whole number of slides apart give the same windows; one form keeps ids and panes the same, too.
    return TimeWindow(name=name, size=size_us, slide=slide_us, offset=shift % slide_us)
