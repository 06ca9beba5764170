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

    @staticmethod
    def of(windows: Sequence[PaneWindow]) -> PaneGrid:
        """The longest panes that divide every window evenly: the GCD of all sizes, slides and offset differences."""
        even = [window for window in windows if window.shortest_step is None]
        uneven = tuple(window for window in windows if window.shortest_step is not None)
        length = gcd(*(length for window in even for length in window.lengths))
        length = gcd(length, *(window.offset - even[0].offset for window in even))
        offset = even[0].offset % length if even else 0
        return UnevenGrid(length, offset, uneven) if uneven else PaneGrid(length, offset)

    def starts(self, times: Int64Array) -> Int64Array:
        """The start of the pane that contains each time."""
        return np.floor_divide(times - self.offset, self.length) * self.length + self.offset

    @property
    def is_uneven(self) -> bool:
        """Whether panes have different lengths."""
        return False

    def starts_of(self, times: Int64Array) -> Int64Array:
        """The starts of panes, in order, in which these times are; some more may be among them."""
        return np.unique(self.starts(times))

    @property
    def shortest(self) -> int:
        """The length of the shortest pane."""
        return self.length

    def most_in(self, length: int) -> int:
        """The most panes in a window of this length."""
        return length // self.length


@dataclass(frozen=True)
class UnevenGrid(PaneGrid):
    """Panes between all starts and ends of calendar windows, and the edges of even panes, if there are any.

    The length is 0 if there are no even panes.
    """

    uneven: tuple[PaneWindow, ...]

    def starts(self, times: Int64Array) -> Int64Array:
        latest = super().starts(times) if self.length else np.full(len(times), NEVER, dtype=np.int64)
        for window in self.uneven:
            np.maximum(latest, window.start(window.last_containing(times)), out=latest)
            np.maximum(latest, window.end(window.first_containing(times) - 1), out=latest)
        return latest

    @property
    def is_uneven(self) -> bool:
        return True

    def starts_of(self, times: Int64Array) -> Int64Array:
        least, greatest = int(times.min()), int(times.max())
        if self.length and (greatest - least) // self.length > max(len(times), 1024):
            return super().starts_of(times)
        bounds = np.array([least, greatest])
        edges = [self.starts(bounds)]
        if self.length:
            first, last = ((bounds - self.offset) // self.length).tolist()
            edges.append(np.arange(first, last + 1) * self.length + self.offset)
        for window in self.uneven:
            begun, ended = window.last_containing(bounds), window.first_containing(bounds) - 1
            edges.append(window.start(np.arange(begun[0], begun[1] + 1)))
            edges.append(window.end(np.arange(ended[0], ended[1] + 1)))
        starts = np.unique(np.concatenate(edges))
        return np.asarray(starts[starts >= edges[0][0]])

    @property
    def shortest(self) -> int:
        steps = [window.shortest_step for window in self.uneven if window.shortest_step is not None]
        return min([*steps, *([self.length] if self.length else [])])

    def most_in(self, length: int) -> int:
        of_even = length // self.length + 1 if self.length else 1
        return of_even + sum(2 * (length // (window.shortest_step or 1) + 1) for window in self.uneven)


def last_ends(times: Int64Array, windows: Sequence[Window]) -> Int64Array:
    """The watermark from which a tuple or pane at each time is too late for all windows; `NEVER` if it is in none."""
    latest = np.full(len(times), NEVER, dtype=np.int64)
    for window in windows:
        np.maximum(latest, window.last_ends(times), out=latest)
    return latest
