"""Exact quantiles, with the interpolation of Spark's `percentile`."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, Float64Array, Int64Array, all_true, any_true
from muntin.holistic.contents import Selection, WindowContents
from muntin.holistic.function import HolisticFunction, lists, spread
from muntin.holistic.weighted import slabs


@dataclass(frozen=True)
class Quantiles(HolisticFunction):
    """Quantile p of n ordered values is at position (n - 1)·p, interpolated linearly between neighbours."""

    probabilities: tuple[float, ...]
    as_list: bool

    takes_weights: ClassVar[bool] = True

    def compute(self, contents: WindowContents) -> pa.Array:
        return self.repeated(contents, None)

    def repeated(self, contents: WindowContents, times: Int64Array | None) -> pa.Array:
        """The quantiles if every tuple of a window occurs `times` times, as in a join; None means once."""
        selected = contents.selected(self.column, self.where)
        windows = np.flatnonzero(selected.sizes if times is None else selected.sizes * times)
        times = None if times is None else times[windows]
        quantiles = [_quantile(selected, windows, times, probability) for probability in self.probabilities]
        if not self.as_list:
            return spread(pa.array(quantiles[0]), windows, len(selected.sizes))
        offsets = np.arange(len(windows) + 1) * len(quantiles)
        return spread(lists(offsets, pa.array(np.column_stack(quantiles).ravel())), windows, len(selected.sizes))


def _quantile(selected: Selection, windows: Int64Array, times: Int64Array | None, probability: float) -> Float64Array:
    numbers = selected.numbers
    if selected.weights is not None:
        return _weighted(selected, numbers, windows, probability)
    if len(windows) == 1 and times is None:
        return _of_one(selected, windows, probability)
    sizes = selected.sizes[windows]
    position = ((sizes if times is None else sizes * times) - 1) * probability
    below, above = np.floor(position), np.ceil(position)
    low = numbers[selected.kth(windows, _place(below, times))]
    is_between = above > below
    if not any_true(is_between):
        return low
    between = slice(None) if all_true(is_between) else np.flatnonzero(is_between)
    repeats = None if times is None else times[between]
    high = numbers[selected.kth(windows[between], _place(above[between], repeats))]
    return _interpolated(position, low, high, between)


def _of_one(selected: Selection, window: Int64Array, probability: float) -> Float64Array:
    """The same for a single window, bit for bit: for one value, array operations cost more than the arithmetic."""
    position = (int(selected.sizes[window][0]) - 1) * probability
    below, above = floor(position), ceil(position)
    low, high = selected.numbers[selected.kth(window.repeat(2), np.array([below, above]))].tolist()
    return np.array([low if low == high else (above - position) * low + (position - below) * high])


def _place(position: Float64Array, times: Int64Array | None) -> Int64Array:
    """The index of the value at a position if every value occurs `times` times."""
    index = position.astype(np.int64)
    return index if times is None else index // times


def _weighted(selected: Selection, numbers: Float64Array, windows: Int64Array, probability: float) -> Float64Array:
    """The same for weighted tuples, each of which represents several."""
    parts = [np.zeros(0)]
    for slab in slabs(selected, windows):
        position = np.maximum(slab.total - 1, 0.0) * probability
        low, high = (numbers[slab.at(side)] for side in (np.floor(position), np.ceil(position)))
        between = np.flatnonzero(np.ceil(position) > np.floor(position))
        parts.append(_interpolated(position, low, high[between], between))
    return np.concatenate(parts)


def _interpolated(position: Array, low: Float64Array, high: Float64Array, between: Int64Array | slice) -> Float64Array:
    """Linear interpolation for the windows in `between`; `high` has the values of these windows only."""
    position, least = position[between], low[between]
    below, above = np.floor(position), np.ceil(position)
    with np.errstate(invalid="ignore"):  # infinities give NaN, as in Spark
        on_line = (above - position) * least + (position - below) * high
    low[between] = np.where(least == high, least, on_line)
    return low
