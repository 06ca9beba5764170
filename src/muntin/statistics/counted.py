"""How many tuples there were, from how many of them were kept: exact bounds, for any number.

Each of N tuples is kept with probability p, independently of the others, so the number k of kept ones has a binomial
distribution. As Clopper and Pearson (1934) do for p, the bounds are the least and the largest N that do not make k too
unlikely.

A window of which nothing was kept is missing from the results. So what counts is the share of right intervals among
those that are seen, and a window of a single tuple is only seen if it was kept, whatever p is. The lower bound
therefore takes the distribution of k given that k is not 0. The upper bound may take the plain one: given that a window
is seen, too low a k is even less likely. Neither depends on how many other tuples, that do not count, are in the
window.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betainc

from muntin.arrays import BoolArray, Float64Array, Int64Array
from muntin.statistics.estimators import Interval

MOST = 1 << 60
"""Larger numbers of tuples are not bounded."""


def all_tuples(kept: Int64Array, probability: float, confidence: float) -> Interval:
    """The number of all tuples, given how many were kept: the estimate is a whole number."""
    distinct, index = np.unique(kept, return_inverse=True)
    tail = (1 - confidence) / 2
    k = distinct.astype(np.float64)
    low, high = _fewest(k, probability, tail), _most(k, probability, tail)
    return Interval(np.rint(kept / probability), low[index], high[index])


def _fewest(k: Float64Array, p: float, tail: float) -> Float64Array:
    """The least N of which k or more tuples are kept with a probability above `tail`, given that one is kept."""

    def is_enough(n: Float64Array) -> BoolArray:
        return np.asarray(at_least(k, n, p) > tail * at_least(np.ones(len(n)), n, p))

    below = k - 1  # never enough, or not asked where k is 0
    above = np.maximum(k, np.ceil(k / p))
    while not np.all(is_enough(above)):
        above = np.where(is_enough(above), above, 2 * above + 1)
    return np.where(k > 0, _first(is_enough, below, above), 0.0)


def _most(k: Float64Array, p: float, tail: float) -> Float64Array:
    """The largest N of which k or fewer tuples are kept with a probability above `tail`."""

    def is_too_many(n: Float64Array) -> BoolArray:
        return np.asarray(1 - at_least(k + 1, n, p) <= tail)

    above = np.ceil(k / p) + 1
    while not np.all(is_too_many(above) | (above > MOST)):
        above = np.where(is_too_many(above), above, 2 * above)
    return np.where(above > MOST, np.inf, _first(is_too_many, k, above) - 1)


def at_least(k: Float64Array, n: Float64Array, p: float) -> Float64Array:
    """The probability that k or more of n tuples are kept, for a k above 0."""
    possible = n >= k
    return np.asarray(np.where(possible, betainc(np.maximum(k, 1), np.where(possible, n - k + 1, 1.0), p), 0.0))


def _first(is_true: Callable[[Float64Array], BoolArray], below: Float64Array, above: Float64Array) -> Float64Array:
    """The first whole number for which it is true: above `below`, and `above` at the latest."""
    low, high = below.copy(), above.copy()
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        true = is_true(middle)
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return high
