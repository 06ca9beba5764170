"""The rank error of a sample's quantile: an exact bound, without assumptions about the values.

SPEAr (Katsipoulakis 2020) takes the sample size from Manku, Rajagopalan and Lindsay (1998), who bound the tail by
Hoeffding's inequality: 185 tuples for an error of 10 % at 95 % confidence. Muntin computes the tail itself. The number
of sampled tuples below a value has the hypergeometric distribution, whatever the values, so the probability of a larger
error is known: 103 tuples are enough. For windows much larger than the sample, the binomial distribution is used
instead; its tails are never smaller (Uhlmann, 1966).
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor

import numpy as np
from scipy.special import bdtr, bdtrik, betaincinv
from scipy.stats import hypergeom

from muntin.arrays import Float64Array, Int64Array, all_true, any_true

MUCH_LARGER = 20
"""A window counts as infinite if it is at least this many times as large as its sample."""


def rank_error(
    sampled: Int64Array, size: Int64Array, probability: float, confidence: float, allowed: float = 0.0
) -> Float64Array:
    """The error e: with this confidence, the sample's quantile lies between the exact quantiles of `probability` ± e.

    The error is infinite for an empty sample, and 0 if the sample is the whole window. Where the quick bound is within
    the `allowed` error, the tighter bound for small windows is not computed.
    """
    tail = (1 - confidence) / 2
    if len(size) == 1 and MUCH_LARGER * sampled[0] <= size[0]:  # one large window needs no arrays
        return _as_share(np.array([_infinite_error(int(sampled[0]), probability, tail)]), size)
    complete = sampled >= size
    any_complete = any_true(complete)
    sizes, size_index = distinct(np.where(complete, 0, sampled) if any_complete else sampled)
    error = _as_share(np.array([_infinite_error(n, probability, tail) for n in sizes])[size_index], size)
    if any_complete:
        error[complete] = 0.0
    small = np.flatnonzero((error > allowed) & (size < MUCH_LARGER * sampled))
    if len(small):
        pairs = list(zip(sampled[small].tolist(), size[small].tolist(), strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if (*pair, probability, tail) not in _CACHE]
        if new:
            _clear_full_cache()
            columns = np.array(new, dtype=np.int64).T
            errors = _finite_errors(columns[0], columns[1], probability, tail)
            for pair, value in zip(new, errors.tolist(), strict=True):
                _CACHE[(*pair, probability, tail)] = value
        error[small] = [_CACHE[(*pair, probability, tail)] for pair in pairs]
    return error


def _as_share(error: Float64Array, size: Int64Array) -> Float64Array:
    """The error plus one tuple. Ranks are shares, so it is at most 1, unless it is infinite."""
    return np.where(error < np.inf, np.minimum(error + 1 / np.maximum(size, 1), 1.0), np.inf)


_CACHE: dict[tuple[int, int, float, float], float] = {}
"""Errors of small windows, which are slow to compute and recur."""


def _clear_full_cache() -> None:
    if len(_CACHE) > 100_000:
        _CACHE.clear()


@lru_cache(maxsize=4096)
def quantile_interval(n: int, probability: float, confidence: float) -> tuple[int, int]:
    """The places, from 0, of the values of a sample between which the quantile of its window lies, if n > 0.

    A place outside the sample means that the sample has no bound on that side. The window may have any size. The
    quantile is interpolated. Of a window of N tuples, the share of those up to the quantile is at least
    p (N - 1) / N, and the share of those from it on at least (1 - p) (N - 1) / N. Both are least in the smallest
    window, of n + 1 tuples. If all n are kept, the bounds are the values around the quantile.
    """
    tail, count, shrunk = (1 - confidence) / 2, np.array([n]), n / (n + 1)
    low = binomial_quantile(tail, count, probability * shrunk)[0] - 1
    high = binomial_quantile(1 - tail, count, 1 - (1 - probability) * shrunk)[0]
    position = (n - 1) * probability
    return int(min(np.nan_to_num(low, nan=-1), floor(position))), int(max(np.nan_to_num(high, nan=n), ceil(position)))


def binomial_quantile(level: float, n: Int64Array, probability: float) -> Float64Array:
    """The least k for which at most k successes in n trials have a probability of at least `level`."""
    k = np.ceil(bdtrik(level, n, probability))
    before = np.maximum(k - 1, 0)
    return np.asarray(np.where(bdtr(before, n, probability) >= level, before, k))


def _places(n: Int64Array, probability: float) -> tuple[Int64Array, Int64Array]:
    """The places, from 0, of the two values of the sample between which its quantile lies."""
    position = (n - 1) * probability
    return np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)


def distinct(n: Int64Array) -> tuple[list[int], Int64Array]:
    """The distinct sizes, which are few if they follow from a budget, and the index of each size among them."""
    if len(n) and all_true(n == n[0]):
        return [int(n[0])], np.zeros(len(n), dtype=np.int64)
    sizes, index = np.unique(n, return_inverse=True)
    return sizes.tolist(), index


@lru_cache(maxsize=4096)
def _infinite_error(n: int, probability: float, tail: float) -> float:
    return float(_infinite_errors(np.array([n]), probability, tail)[0]) if n else np.inf


def _infinite_errors(n: Int64Array, probability: float, tail: float) -> Float64Array:
    """The errors of samples of size n of infinite windows.

    The share of a window below the k-th value of its sample (from 0) has the distribution Beta(k + 1, n - k).
    """
    below, above = _places(n, probability)
    least = betaincinv(below + 1.0, (n - below).astype(float), tail)
    most = betaincinv(above + 1.0, (n - above).astype(float), 1 - tail)
    return np.asarray(np.maximum(np.maximum(probability - least, most - probability), 0.0))


def _finite_errors(n: Int64Array, size: Int64Array, probability: float, tail: float) -> Float64Array:
    below, above = _places(n, probability)
    # The quantile is too low if more than `below` sampled tuples are among the window's smallest; too high likewise.
    low = probability - _most_marked(n, size, below + 1, tail) / (size - 1)
    high = 1 - _most_marked(n, size, n - above, tail) / (size - 1) - probability
    return np.maximum(np.maximum(low, high), 0.0)


def _most_marked(n: Int64Array, size: Int64Array, count: Int64Array, tail: float) -> Int64Array:
    """The most tuples that can be marked if a sample has `count` or more of them with a probability up to `tail`."""
    low, high = np.zeros(len(n), dtype=np.int64), size.copy()
    while np.any(low < high):
        middle = (low + high + 1) >> 1
        rare = hypergeom.sf(count - 1, size, middle, n) <= tail
        low, high = np.where(rare, middle, low), np.where(rare, high, middle - 1)
    return np.minimum(low, size - 1)


@lru_cache(maxsize=256)
def tuples_needed(probability: float, error: float, confidence: float) -> int:
    """The sample size that limits the error of a quantile to `error`, for windows of any size."""
    tail = (1 - confidence) / 2
    low, high = 1, 2
    while _infinite_errors(np.array([high]), probability, tail)[0] > error:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        # Not quite monotone: whether the quantile is one value or between two depends on the sample size.
        fits = _infinite_errors(np.arange(middle, middle + 8), probability, tail).max() <= error
        low, high = (low, middle) if fits else (middle + 1, high)
    return low
