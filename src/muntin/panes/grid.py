"""Pane arithmetic: the cut of event time of which every window of a query is a whole number of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from muntin.arrays import Int64Array
from muntin.windows import TimeWindow


@dataclass(frozen=True)
class PaneGrid:
    """Panes `[offset + i * length, offset + (i + 1) * length)`; a pane is named by its start, in microseconds."""

    length: int
    offset: int

    @classmethod
    def of(cls, windows: Sequence[TimeWindow]) -> PaneGrid:
        """The widest panes whose edges include every start and every end of every window."""
        length = gcd(*(part for window in windows for part in (window.size, window.slide)))
        length = gcd(length, *(window.offset - windows[0].offset for window in windows))
        return cls(length, windows[0].offset % length)

    def starts(self, times: Int64Array) -> Int64Array:
        """The start of the pane that holds each time."""
        return np.floor_divide(times - self.offset, self.length) * self.length + self.offset


def last_ends(starts: Int64Array, windows: Sequence[TimeWindow]) -> Int64Array:
    """When the last window that holds each pane ends; the smallest integer for a pane that no window holds."""
    latest = np.full(len(starts), np.iinfo(np.int64).min, dtype=np.int64)
    for window in windows:
        last = window.last_containing(starts)
        held = last >= window.first_containing(starts)
        ends = last * window.slide + (window.offset + window.size)
        np.maximum(latest, ends, out=latest, where=held)
    return latest
