"""Exact quantiles, with the interpolation of Spark's `percentile`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.aggregates import values
from muntin.arrays import Float64Array, Int64Array
from muntin.whole.function import Whole, lists, spread
from muntin.whole.held import Chosen, Held


@dataclass(frozen=True)
class Quantiles(Whole):
    """Of n values in order, quantile p is at position (n - 1)·p; between two values it is on the line between them."""

    probabilities: tuple[float, ...]
    as_list: bool

    def compute(self, held: Held) -> pa.Array:
        return self.repeated(held, np.ones(len(held.begin), dtype=np.int64))

    def repeated(self, held: Held, times: Int64Array) -> pa.Array:
        """The quantiles where every tuple of a window counts so many times, as over a join."""
        chosen = held.chosen(self.column, self.where)
        windows = np.flatnonzero(chosen.sizes * times)
        numbers = values.numbers(chosen.column)
        found = [_quantile(chosen, numbers, windows, times[windows], each) for each in self.probabilities]
        if not self.as_list:
            return spread(pa.array(found[0]), windows, len(chosen.sizes))
        offsets = np.arange(len(windows) + 1) * len(found)
        return spread(lists(offsets, pa.array(np.column_stack(found).ravel())), windows, len(chosen.sizes))


def _quantile(
    chosen: Chosen, numbers: Float64Array, windows: Int64Array, times: Int64Array, probability: float
) -> Float64Array:
    position = (chosen.sizes[windows] * times - 1) * probability
    below, above = np.floor(position), np.ceil(position)
    low = numbers[chosen.kth(windows, below.astype(np.int64) // times)]
    between = np.flatnonzero(above > below)
    if not len(between):
        return low
    high = numbers[chosen.kth(windows[between], above[between].astype(np.int64) // times[between])]
    position, below, above, least = (each[between] for each in (position, below, above, low))
    with np.errstate(invalid="ignore"):  # of infinities, as in Spark
        on_line = (above - position) * least + (position - below) * high
    low[between] = np.where(least == high, least, on_line)
    return low
