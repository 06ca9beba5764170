"""Pane arithmetic: event time in slices that divide every window of a query evenly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from muntin.arrays import Int64Array
from muntin.windows import PaneWindow, Window
from muntin.windows.model import NEVER


@dataclass(frozen=True)
class PaneGrid:
    """Panes `[offset + i * length, offset + (i + 1) * length)`; a pane is named by its start, in microseconds."""

    length: int
    offset: int

    @classmethod
    def of(cls, windows: Sequence[PaneWindow]) -> PaneGrid:
        """The longest panes that divide every window evenly: the GCD of all sizes, slides and offset differences."""
        length = gcd(*(length for window in windows for length in window.lengths))
        length = gcd(length, *(window.offset - windows[0].offset for window in windows))
        return cls(length, windows[0].offset % length)

    def starts(self, times: Int64Array) -> Int64Array:
        """The start of the pane that contains each time."""
        return np.floor_divide(times - self.offset, self.length) * self.length + self.offset


def last_ends(times: Int64Array, windows: Sequence[Window]) -> Int64Array:
    """The watermark from which a tuple or pane at each time is too late for all windows; `NEVER` if it is in none."""
    latest = np.full(len(times), NEVER, dtype=np.int64)
    for window in windows:
        np.maximum(latest, window.last_ends(times), out=latest)
    return latest
