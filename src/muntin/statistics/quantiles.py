"""Between which values the quantiles of a window are, of which tuples were shed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array, Int64Array
from muntin.holistic.contents import Chosen, Held
from muntin.holistic.function import lists, spread
from muntin.holistic.quantiles import Quantiles
from muntin.holistic.weighted import Slab, slabs
from muntin.partials import values
from muntin.statistics.guarantees import distinct, quantile_interval


def intervals(whole: Quantiles, held: Held, confidence: float) -> tuple[pa.Array, pa.Array]:
    """The least and the greatest that the quantiles of each window may be.

    As for samples, with as many tuples as would tell as much if all stood for equally many.
    """
    chosen = held.chosen(whole.column, whole.where)
    if chosen.weights is None:
        exact = whole.compute(held)
        return exact, exact
    windows = np.flatnonzero(chosen.sizes)
    numbers = values.numbers(chosen.column)
    share = 1 - (1 - confidence) / len(whole.probabilities)  # of all of them together
    found = [_sides(chosen, numbers, windows, each, share) for each in whole.probabilities]
    count = len(chosen.sizes)
    sides = []
    for side in zip(*found, strict=True):
        bounds = pa.array(np.column_stack(side).ravel(), from_pandas=True)
        if whole.as_list:
            bounds = lists(np.arange(len(windows) + 1) * len(found), bounds)
        sides.append(spread(bounds, windows, count))
    return sides[0], sides[1]


def _sides(
    chosen: Chosen, numbers: Float64Array, windows: Int64Array, probability: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """NaN where the kept tuples do not reach so far."""
    as_good_as = np.maximum(chosen.as_good_as, 1)
    parts = [
        _sides_of(slab, as_good_as[slab.windows], numbers, probability, confidence) for slab in slabs(chosen, windows)
    ]
    low, high = ([each[side] for each in parts] for side in (0, 1))
    return np.concatenate([np.zeros(0), *low]), np.concatenate([np.zeros(0), *high])


def _sides_of(
    slab: Slab, as_good_as: Int64Array, numbers: Float64Array, probability: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    sizes, back = distinct(as_good_as)
    places = np.array([quantile_interval(each, probability, confidence) for each in sizes]).reshape(-1, 2)[back].T
    sides = []
    # Where all that was kept is alike, nobody can tell what was not.
    alike = numbers[slab.at(np.zeros(len(as_good_as)))] == numbers[slab.at(slab.total)]
    for place in places:
        outside = (place < 0) | (place >= as_good_as) | alike
        position = np.where(outside, 0.0, place) * slab.total / as_good_as
        sides.append(np.where(outside, np.nan, numbers[slab.at(position)]))
    return sides[0], sides[1]
