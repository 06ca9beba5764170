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

    def edges(self, least: int, greatest: int) -> Int64Array | None:
        """The starts of all panes from that of the least to that of the greatest time; None if they are even."""
        return None

    @property
    def shortest(self) -> int:
        """The length of the shortest pane."""
        return self.length

    def most_in(self, length: int) -> int:
        """The most panes in a window of this length."""
        return length // self.length


MOST_EDGES = 1 << 22
"""More edges than this are not listed."""


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

    def edges(self, least: int, greatest: int) -> Int64Array | None:
        bounds = np.array([least, greatest])
        (first,) = self.starts(bounds[:1])
        edges = [np.array([first])]
        if self.length:
            begin = (first - self.offset) // self.length + 1
            end = (greatest - self.offset) // self.length + 1
            if end - begin > MOST_EDGES:
                return None
            edges.append(np.arange(begin, end) * self.length + self.offset)
        for window in self.uneven:
            begins, ends = window.last_containing(bounds), window.first_containing(bounds)
            edges.append(window.start(np.arange(begins[0], begins[1] + 1)))
            edges.append(window.end(np.arange(ends[0] - 1, ends[1])))
        every = np.unique(np.concatenate(edges))
        return every[(every >= first) & (every <= greatest)]

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
