"""Exact quantiles, with the interpolation of Spark's `percentile`."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, Float64Array, Int64Array, all_true, any_true
from muntin.holistic.contents import Chosen, Held
from muntin.holistic.function import Whole, lists, spread
from muntin.holistic.weighted import slabs


@dataclass(frozen=True)
class Quantiles(Whole):
    """Of n values in order, quantile p is at position (n - 1)·p; between two values it is on the line between them."""

    probabilities: tuple[float, ...]
    as_list: bool

    of_weighted: ClassVar[bool] = True

    def compute(self, held: Held) -> pa.Array:
        return self.repeated(held, None)

    def repeated(self, held: Held, times: Int64Array | None) -> pa.Array:
        """The quantiles where every tuple of a window counts so many times, as over a join; None is once."""
        chosen = held.chosen(self.column, self.where)
        windows = np.flatnonzero(chosen.sizes if times is None else chosen.sizes * times)
        times = None if times is None else times[windows]
        found = [_quantile(chosen, windows, times, each) for each in self.probabilities]
        if not self.as_list:
            return spread(pa.array(found[0]), windows, len(chosen.sizes))
        offsets = np.arange(len(windows) + 1) * len(found)
        return spread(lists(offsets, pa.array(np.column_stack(found).ravel())), windows, len(chosen.sizes))


def _quantile(chosen: Chosen, windows: Int64Array, times: Int64Array | None, probability: float) -> Float64Array:
    numbers = chosen.numbers
    if chosen.weights is not None:
        return _weighted(chosen, numbers, windows, probability)
    if len(windows) == 1 and times is None:
        return _of_one(chosen, windows, probability)
    sizes = chosen.sizes[windows]
    position = ((sizes if times is None else sizes * times) - 1) * probability
    below, above = np.floor(position), np.ceil(position)
    low = numbers[chosen.kth(windows, _place(below, times))]
    apart = above > below
    if not any_true(apart):
        return low
    between = slice(None) if all_true(apart) else np.flatnonzero(apart)
    repeats = None if times is None else times[between]
    high = numbers[chosen.kth(windows[between], _place(above[between], repeats))]
    return _interpolated(position, low, high, between)


def _of_one(chosen: Chosen, window: Int64Array, probability: float) -> Float64Array:
    """The same, to the last bit, of a single window: there arrays would take longer than what is computed in them."""
    position = (int(chosen.sizes[window][0]) - 1) * probability
    below, above = floor(position), ceil(position)
    low, high = chosen.numbers[chosen.kth(window.repeat(2), np.array([below, above]))].tolist()
    return np.array([low if low == high else (above - position) * low + (position - below) * high])


def _place(position: Float64Array, times: Int64Array | None) -> Int64Array:
    """Which value is at a position, if each is there so many times."""
    whole = position.astype(np.int64)
    return whole if times is None else whole // times


def _weighted(chosen: Chosen, numbers: Float64Array, windows: Int64Array, probability: float) -> Float64Array:
    """The same of all tuples that the kept ones stand for."""
    parts = [np.zeros(0)]
    for slab in slabs(chosen, windows):
        position = np.maximum(slab.total - 1, 0.0) * probability
        low, high = (numbers[slab.at(side)] for side in (np.floor(position), np.ceil(position)))
        between = np.flatnonzero(np.ceil(position) > np.floor(position))
        parts.append(_interpolated(position, low, high[between], between))
    return np.concatenate(parts)


def _interpolated(position: Array, low: Float64Array, high: Float64Array, between: Int64Array | slice) -> Float64Array:
    """On the line between two values, where the position is between them; `high` is of those windows alone."""
    position, least = position[between], low[between]
    below, above = np.floor(position), np.ceil(position)
    with np.errstate(invalid="ignore"):  # of infinities, as in Spark
        on_line = (above - position) * least + (position - below) * high
    low[between] = np.where(least == high, least, on_line)
    return low
