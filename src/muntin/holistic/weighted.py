"""Order statistics and frequencies of weighted tuples: those kept by shedding, which represent the shed ones.

Windows are small after shedding, so each is sorted on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.arrays import Float64Array, Int64Array, expand, positions_in_runs, run_starts, stable_order
from muntin.holistic.contents import Selection
from muntin.partials.groups import sums

MOST_TUPLES = 1 << 22
"""Tuples of windows that are in memory at once."""


@dataclass(frozen=True)
class Slab:
    """A group of windows, each with its tuples sorted by value."""

    windows: Int64Array
    tuples: Int64Array
    """The rows of the tuples, window by window."""
    window_index: Int64Array
    """For each tuple, the index of its window in `windows`."""
    weight: Float64Array

    @cached_property
    def cumulative(self) -> Float64Array:
        """The cumulative weight up to and including each tuple, over all windows."""
        return np.cumsum(self.weight)

    @cached_property
    def total(self) -> Float64Array:
        return sums(self.window_index, self.weight, len(self.windows))

    def at(self, position: Float64Array) -> Int64Array:
        """The tuple at a position (from 0) if each tuple were repeated as often as its weight."""
        ends = np.cumsum(np.bincount(self.window_index, minlength=len(self.windows)))
        weight_before = np.append(0.0, self.cumulative[ends - 1])[:-1]
        # The epsilon keeps rounding errors of the sums from selecting the tuple before.
        index = np.searchsorted(self.cumulative, weight_before + position + 1e-9 * (1 + self.total), side="right")
        first = np.append(0, ends[:-1])
        return np.asarray(self.tuples[np.clip(index, first, ends - 1)])

    def frequencies(self, selected: Selection, k: int) -> tuple[Int64Array, Int64Array, Float64Array]:
        """The k values of each window with the largest weight: the window, a tuple with the value, the weight."""
        values = selected.order_keys[self.tuples]
        starts = run_starts(self.window_index, values)
        weight = np.add.reduceat(self.weight, starts) if len(starts) else np.zeros(0)
        order = np.lexsort((values[starts], -weight, self.window_index[starts]))
        order = order[positions_in_runs(run_starts(self.window_index[starts][order]), len(order)) < k]
        return self.windows[self.window_index[starts][order]], self.tuples[starts][order], weight[order]


def slabs(selected: Selection, windows: Int64Array) -> Iterator[Slab]:
    """Groups of non-empty windows with at most `MOST_TUPLES` tuples in total, or a single window."""
    assert selected.weights is not None
    tuples_until = np.cumsum(selected.sizes[windows])
    begin, tuples_before = 0, 0
    while begin < len(windows):
        end = max(int(np.searchsorted(tuples_until, tuples_before + MOST_TUPLES, side="right")), begin + 1)
        group = windows[begin:end]
        row, window_index = expand(selected.begin[group], selected.sizes[group])
        order = stable_order(selected.order_keys[row], window_index)
        yield Slab(group, row[order], window_index[order], selected.weights[row[order]])
        begin, tuples_before = end, int(tuples_until[end - 1])
