"""Order statistics and frequencies of tuples that stand for others: those that were kept when tuples were shed.

Shed windows are small, so each is sorted for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.arrays import Float64Array, Int64Array, expand, positions_in_runs, run_starts
from muntin.holistic.contents import Chosen
from muntin.partials.partial import sums

MOST_TUPLES = 1 << 22
"""How many tuples of windows there are at once."""


@dataclass(frozen=True)
class Slab:
    """Some windows, with the tuples of each from the least value to the greatest."""

    windows: Int64Array
    tuples: Int64Array
    """Where the tuples are, window by window."""
    of: Int64Array
    """Which window each is of, by its place among these."""
    weight: Float64Array

    @cached_property
    def until(self) -> Float64Array:
        """How much weight there is up to each tuple, over all windows, itself included."""
        return np.cumsum(self.weight)

    @cached_property
    def total(self) -> Float64Array:
        return sums(self.of, self.weight, len(self.windows))

    def at(self, position: Float64Array) -> Int64Array:
        """The tuple at a position, from 0, if each tuple were there as often as its weight says."""
        ends = np.cumsum(np.bincount(self.of, minlength=len(self.windows)))
        before = np.append(0.0, self.until[ends - 1])[:-1]
        # A hair above, so that rounding errors of the sums do not lead to the tuple before.
        found = np.searchsorted(self.until, before + position + 1e-9 * (1 + self.total), side="right")
        first = np.append(0, ends[:-1])
        return np.asarray(self.tuples[np.clip(found, first, ends - 1)])

    def frequencies(self, chosen: Chosen, k: int) -> tuple[Int64Array, Int64Array, Float64Array]:
        """The k values of each window with the largest weight: the window, a tuple that has it, the weight."""
        values = chosen.order_keys[self.tuples]
        starts = run_starts(self.of, values)
        weight = np.add.reduceat(self.weight, starts) if len(starts) else np.zeros(0)
        order = np.lexsort((values[starts], -weight, self.of[starts]))
        order = order[positions_in_runs(run_starts(self.of[starts][order]), len(order)) < k]
        return self.windows[self.of[starts][order]], self.tuples[starts][order], weight[order]


def slabs(chosen: Chosen, windows: Int64Array) -> Iterator[Slab]:
    """Windows that hold something, as many at a time as have a bounded number of tuples together."""
    assert chosen.weights is not None
    until = np.cumsum(chosen.sizes[windows])
    begin, before = 0, 0
    while begin < len(windows):
        end = max(int(np.searchsorted(until, before + MOST_TUPLES, side="right")), begin + 1)
        part = windows[begin:end]
        place, of = expand(chosen.begin[part], chosen.sizes[part])
        order = np.lexsort((chosen.order_keys[place], of))
        yield Slab(part, place[order], of[order], chosen.weights[place[order]])
        begin, before = end, int(until[end - 1])
