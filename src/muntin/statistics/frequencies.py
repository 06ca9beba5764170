"""By what share of a window a more frequent value may have been missed, where only some of its tuples are known.

The shares of all values together are off by no more than twice what the inequality of Dvoretzky, Kiefer and Wolfowitz,
with Massart's constant, allows the distribution function; the difference of two shares by no more than twice that.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import BoolArray, Float64Array, Int64Array
from muntin.holistic.contents import Chosen
from muntin.holistic.frequent import Frequencies, most_frequent


def missed_share(
    chosen: Chosen, most: Frequencies, known: BoolArray, k: int, as_list: bool, confidence: float
) -> Float64Array:
    """Infinite where there is nothing to tell from; `most` are the k + 1 most frequent values.

    0 where all tuples are `known`, and where the k-th value is so far ahead of the next that none can be missing. A
    list also tells how often its values occur, which is never certain.
    """
    off = np.minimum(2 * _frequency_error(np.maximum(chosen.as_good_as, 1), confidence), 1.0)  # it is a share
    told = np.where(chosen.sizes > 0, off, np.inf)
    if as_list:
        return np.where(known, 0.0, told)
    place = places(most)
    share = np.zeros((2, len(off)))  # of the last value that is told, and of the first that is not
    total = np.maximum(chosen.total, 1)
    for row, at in enumerate((k - 1, k)):
        found = place == at
        share[row, most.window[found]] = most.count[found] / total[most.window[found]]
    return np.where(known | (share[0] - share[1] > off), 0.0, told)


def places(most: Frequencies) -> Int64Array:
    """The place of each value in its window, from 0."""
    return np.asarray(np.arange(len(most.window)) - np.searchsorted(most.window, most.window))


def missed_in_kept(chosen: Chosen, k: int, as_list: bool, confidence: float) -> Float64Array:
    """The same for windows of which tuples were shed: those of weight 1 stand for themselves alone."""
    known = (chosen.sizes > 0) & (chosen.total <= chosen.sizes * (1 + 1e-9))
    return missed_share(chosen, most_frequent(chosen, k + 1), known, k, as_list, confidence)


def _frequency_error(n: Int64Array, confidence: float) -> Float64Array:
    return np.asarray(2 * np.sqrt(np.log(2 / (1 - confidence)) / (2 * n)))
