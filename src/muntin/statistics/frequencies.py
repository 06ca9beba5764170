"""The error of the most frequent values if only some tuples of a window are known.

The error is the share of the window by which a value that was missed may be more frequent than one that was reported.
The inequality of Dvoretzky, Kiefer and Wolfowitz, with Massart's constant, bounds the error of the distribution
function. The shares of all values together are off by at most twice that bound, the difference of two shares by at most
four times that bound.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import BoolArray, Float64Array, Int64Array
from muntin.holistic.contents import Selection
from muntin.holistic.frequent import Frequencies, most_frequent


def missed_share(
    selected: Selection, most: Frequencies, known: BoolArray, k: int, as_list: bool, confidence: float
) -> Float64Array:
    """The error of each window, infinite without any tuples; `most` are the k + 1 most frequent values.

    The error is 0 where all tuples are `known`, and where the k-th value is so far ahead of the next that none can be
    missing. A list also reports how often its values occur, so its error is 0 only where all tuples are known.
    """
    bound = np.minimum(2 * _frequency_error(np.maximum(selected.effective_sizes, 1), confidence), 1.0)  # it is a share
    error = np.where(selected.sizes > 0, bound, np.inf)
    if as_list:
        return np.where(known, 0.0, error)
    place = places(most)
    share = np.zeros((2, len(bound)))  # of the last value that is reported, and of the first that is not
    total = np.maximum(selected.total, 1)
    for row, boundary in enumerate((k - 1, k)):
        is_boundary = place == boundary
        share[row, most.window[is_boundary]] = most.count[is_boundary] / total[most.window[is_boundary]]
    return np.where(known | (share[0] - share[1] > bound), 0.0, error)


def places(most: Frequencies) -> Int64Array:
    """The place of each value in its window, from 0."""
    return np.asarray(np.arange(len(most.window)) - np.searchsorted(most.window, most.window))


def missed_in_kept(selected: Selection, k: int, as_list: bool, confidence: float) -> Float64Array:
    """`missed_share` for windows from which tuples were shed: all are known if every kept tuple has weight 1."""
    known = (selected.sizes > 0) & (selected.total <= selected.sizes * (1 + 1e-9))
    return missed_share(selected, most_frequent(selected, k + 1), known, k, as_list, confidence)


def _frequency_error(n: Int64Array, confidence: float) -> Float64Array:
    """By how much the shares of all values together are off."""
    return np.asarray(2 * np.sqrt(np.log(2 / (1 - confidence)) / (2 * n)))
