"""Bounds of the quantiles of windows from which tuples were shed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array, Int64Array
from muntin.holistic.contents import Selection, WindowContents
from muntin.holistic.function import lists, spread
from muntin.holistic.quantiles import Quantiles
from muntin.holistic.weighted import Slab, slabs
from muntin.partials import values
from muntin.statistics.guarantees import distinct, quantile_interval


def intervals(function: Quantiles, contents: WindowContents, confidence: float) -> tuple[pa.Array, pa.Array]:
    """The lower and the upper bound of the quantiles of each window.

    They are those of a sample with the effective size of the kept tuples: as many tuples of equal weight as would give
    the same precision.
    """
    selected = contents.selected(function.column, function.where)
    if selected.weights is None:
        exact = function.compute(contents)
        return exact, exact
    windows = np.flatnonzero(selected.sizes)
    numbers = values.numbers(selected.column)
    stricter = 1 - (1 - confidence) / len(function.probabilities)  # so that all bounds hold together
    bounds = [_bounds(selected, numbers, windows, p, stricter) for p in function.probabilities]
    return _as_arrays(function, bounds, windows, len(selected.sizes))


def intervals_for_any_size(
    function: Quantiles, contents: WindowContents, confidence: float
) -> tuple[pa.Array, pa.Array]:
    """The same where kept tuples are a simple random sample of nobody knows how many."""
    selected = contents.selected(function.column, function.where)
    windows = np.flatnonzero(selected.sizes)
    stricter = 1 - (1 - confidence) / len(function.probabilities)
    bounds = [_bounds_for_any_size(selected, windows, p, stricter) for p in function.probabilities]
    return _as_arrays(function, bounds, windows, len(selected.sizes))


def _bounds_for_any_size(
    selected: Selection, windows: Int64Array, probability: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    count = selected.sizes[windows]
    sizes, size_index = distinct(count)
    of_sizes = [quantile_interval(n, probability, confidence) for n in sizes]
    places = np.array(of_sizes, dtype=np.int64).reshape(-1, 2)[size_index].T
    edges = selected.numbers[selected.kth(windows, np.array([np.zeros(len(count), dtype=np.int64), count - 1]))]
    # If all kept tuples are equal, they give no bound for the shed ones.
    outside = (places < 0) | (places >= count) | (edges[0] == edges[1])
    values_at = selected.numbers[selected.kth(windows, np.where(outside, 0, places))]
    low, high = np.where(outside, np.nan, values_at)
    return low, high


def _as_arrays(
    function: Quantiles, bounds: Sequence[tuple[Float64Array, Float64Array]], windows: Int64Array, count: int
) -> tuple[pa.Array, pa.Array]:
    """Both sides for `count` windows, null except for these."""
    sides = []
    for side in zip(*bounds, strict=True):
        array = pa.array(np.column_stack(side).ravel(), from_pandas=True)
        if function.as_list:
            array = lists(np.arange(len(windows) + 1) * len(bounds), array)
        sides.append(spread(array, windows, count))
    return sides[0], sides[1]


def _bounds(
    selected: Selection, numbers: Float64Array, windows: Int64Array, probability: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """The bounds of one quantile, NaN where the kept tuples have none."""
    effective_sizes = np.maximum(selected.effective_sizes, 1)
    parts = [
        _slab_bounds(slab, effective_sizes[slab.windows], numbers, probability, confidence)
        for slab in slabs(selected, windows)
    ]
    low, high = ([part[side] for part in parts] for side in (0, 1))
    return np.concatenate([np.zeros(0), *low]), np.concatenate([np.zeros(0), *high])


def _slab_bounds(
    slab: Slab, effective_sizes: Int64Array, numbers: Float64Array, probability: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    sizes, size_index = distinct(effective_sizes)
    places = np.array([quantile_interval(n, probability, confidence) for n in sizes]).reshape(-1, 2)[size_index].T
    sides = []
    # If all kept tuples are equal, they give no bound for the shed ones.
    all_equal = numbers[slab.at(np.zeros(len(effective_sizes)))] == numbers[slab.at(slab.total)]
    for place in places:
        outside = (place < 0) | (place >= effective_sizes) | all_equal
        position = np.where(outside, 0.0, place) * slab.total / effective_sizes
        sides.append(np.where(outside, np.nan, numbers[slab.at(position)]))
    return sides[0], sides[1]
