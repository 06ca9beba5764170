"""How far the rank of a sample's quantile may be from what was asked for: an exact bound, without assumptions.

SPEAr takes the sample size from Manku, Rajagopalan and Lindsay (1998), who bound the tail by Hoeffding's inequality:
for 10 % at 95 % that is 185 tuples. Here the tail itself is used. How many tuples of a sample are below some value has
the hypergeometric distribution, whatever the values, so the chance that the sample's quantile is further off than the
error can be computed: 103 tuples are enough. Where the window is much larger than the sample, the binomial distribution
takes its place, which is never smaller in the tails (Uhlmann, 1966).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import bdtr, bdtrik, betaincinv
from scipy.stats import hypergeom

from muntin.arrays import Float64Array, Int64Array, all_true, any_true

MUCH_LARGER = 20
"""From so many times the sample on, a window counts as infinite."""


def rank_error(
    sampled: Int64Array, size: Int64Array, probability: float, confidence: float, allowed: float = 0.0
) -> Float64Array:
    """With this confidence, the quantile of a sample lies between the exact quantiles that are so far apart from it.

    That is: if e is the error, between those of `probability - e` and `probability + e`. It is infinite for a sample
    of nothing, and 0 if the sample is all there is. Where the quick bound is not more than the `allowed` error, the
    tighter one for small windows is not computed.
    """
    tail = (1 - confidence) / 2
    if len(size) == 1 and MUCH_LARGER * sampled[0] <= size[0]:  # one large window at a time: no need of arrays
        return _as_share(np.array([_of_infinitely_many(int(sampled[0]), probability, tail)]), size)
    complete = sampled >= size
    known = any_true(complete)
    sizes, back = distinct(np.where(complete, 0, sampled) if known else sampled)
    error = _as_share(np.array([_of_infinitely_many(each, probability, tail) for each in sizes])[back], size)
    if known:
        error[complete] = 0.0
    near = np.flatnonzero((error > allowed) & (size < MUCH_LARGER * sampled))
    if len(near):
        pairs = list(zip(sampled[near].tolist(), size[near].tolist(), strict=True))
        unknown = [pair for pair in dict.fromkeys(pairs) if (*pair, probability, tail) not in _KNOWN]
        if unknown:
            _forget_if_many()
            both = np.array(unknown, dtype=np.int64).T
            for pair, value in zip(unknown, _of_finite(both[0], both[1], probability, tail).tolist(), strict=True):
                _KNOWN[(*pair, probability, tail)] = value
        error[near] = [_KNOWN[(*pair, probability, tail)] for pair in pairs]
    return error


def _as_share(error: Float64Array, size: Int64Array) -> Float64Array:
    """With one tuple more. Ranks are shares, so that no two are further apart than 1; infinite stays infinite."""
    return np.where(error < np.inf, np.minimum(error + 1 / np.maximum(size, 1), 1.0), np.inf)


_KNOWN: dict[tuple[int, int, float, float], float] = {}
"""Errors for small windows, which are slow to find and come again and again."""


def _forget_if_many() -> None:
    if len(_KNOWN) > 100_000:
        _KNOWN.clear()


@lru_cache(maxsize=4096)
def quantile_interval(n: int, probability: float, confidence: float) -> tuple[int, int]:
    """Between which values of a sample, by their places from 0, the quantile of a much larger window is.

    A place that the sample does not have says that there is no such value.
    """
    tail, count = (1 - confidence) / 2, np.array([n])
    low, high = binomial_quantile(tail, count, probability) - 1, binomial_quantile(1 - tail, count, probability)
    return int(np.nan_to_num(low[0], nan=-1)), int(np.nan_to_num(high[0], nan=n))


def binomial_quantile(chance: float, n: Int64Array, probability: float) -> Float64Array:
    """The least k for which the chance of at most k of n is no smaller than this one."""
    k = np.ceil(bdtrik(chance, n, probability))
    before = np.maximum(k - 1, 0)
    return np.asarray(np.where(bdtr(before, n, probability) >= chance, before, k))


def _places(n: Int64Array, probability: float) -> tuple[Int64Array, Int64Array]:
    """The values of the sample, from 0, that its quantile lies between."""
    position = (n - 1) * probability
    return np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)


def distinct(n: Int64Array) -> tuple[list[int], Int64Array]:
    """The sizes that there are, which are few where a budget decides, and which of them each is."""
    if len(n) and all_true(n == n[0]):
        return [int(n[0])], np.zeros(len(n), dtype=np.int64)
    sizes, back = np.unique(n, return_inverse=True)
    return sizes.tolist(), back


@lru_cache(maxsize=4096)
def _of_infinitely_many(n: int, probability: float, tail: float) -> float:
    return float(_of_infinite(np.array([n]), probability, tail)[0]) if n else np.inf


def _of_infinite(n: Int64Array, probability: float, tail: float) -> Float64Array:
    """The share of a window below the k-th value of a sample (from 0) has the distribution Beta(k + 1, n - k)."""
    below, above = _places(n, probability)
    least = betaincinv(below + 1.0, (n - below).astype(float), tail)
    most = betaincinv(above + 1.0, (n - above).astype(float), 1 - tail)
    return np.asarray(np.maximum(np.maximum(probability - least, most - probability), 0.0))


def _of_finite(n: Int64Array, size: Int64Array, probability: float, tail: float) -> Float64Array:
    below, above = _places(n, probability)
    # The quantile is too low if more than `below` of the sample are among the window's smallest, too high likewise.
    low = probability - _most_marked(n, size, below + 1, tail) / (size - 1)
    high = 1 - _most_marked(n, size, n - above, tail) / (size - 1) - probability
    return np.maximum(np.maximum(low, high), 0.0)


def _most_marked(n: Int64Array, size: Int64Array, count: Int64Array, tail: float) -> Int64Array:
    """The most tuples of a window that can be marked if a sample has `count` marked ones with at most this chance."""
    low, high = np.zeros(len(n), dtype=np.int64), size.copy()
    while np.any(low < high):
        middle = (low + high + 1) >> 1
        rare = hypergeom.sf(count - 1, size, middle, n) <= tail
        low, high = np.where(rare, middle, low), np.where(rare, high, middle - 1)
    return np.minimum(low, size - 1)


@lru_cache(maxsize=256)
def tuples_needed(probability: float, error: float, confidence: float) -> int:
    """How large a sample of any window must be for a quantile with this error."""
    tail = (1 - confidence) / 2
    low, high = 1, 2
    while _of_infinite(np.array([high]), probability, tail)[0] > error:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        # Not quite monotone: whether the quantile is one value or between two goes with the parity of the sample.
        fits = _of_infinite(np.arange(middle, middle + 8), probability, tail).max() <= error
        low, high = (low, middle) if fits else (middle + 1, high)
    return low
