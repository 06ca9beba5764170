"""Bounds of the shares that values have of a window, from their counts in a sample: exact, for any distribution.

The count of one value has the hypergeometric distribution, so Clopper and Pearson (1934) bound its share. But which
values are the most frequent of a sample is random, so bounds must hold for all values of a window at once, and nobody
knows how many there are. Here a value of share p may miss its bound with a probability of `tail` · p. The shares of all
values add up to 1, so together they miss with a probability of at most `tail`, however many values there are.

The binomial distribution gives quick bounds (Uhlmann, 1966). Its tails are smaller only for values that are in a single
sampled tuple, or in all but one, and by less than n / N of them: the tail is reduced by that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np
from scipy.special import betaincinv
from scipy.stats import hypergeom

from muntin.arrays import Float64Array, Int64Array, run_numbers, run_starts
from muntin.statistics.guarantees import MUCH_LARGER

Bounds: TypeAlias = Callable[[Int64Array, Int64Array, Int64Array, float], Float64Array]
"""Bounds of shares, from counts, the sizes of samples and of windows, and the tail."""
_ROUNDS = 6
_FAR = 1_000.0
"""Lower bounds this far below the share of a single sampled tuple count as 0."""
_STEPS = 32
"""Tails are reduced in this many steps, so that windows of similar size share their bounds."""


def least(count: Int64Array, sampled: Int64Array, size: Int64Array, tail: float) -> Float64Array:
    """Quick lower bounds, which hold for all values of a window at once."""
    occurs, n = count > 0, np.maximum(sampled, 1).astype(np.float64)
    k, tails = np.where(occurs, count, 1).astype(np.float64), _reduced(tail, sampled, size)
    share = betaincinv(k, n - k + 1, tails / (_FAR * n))
    # Rising to the solution of P(count or more | share) = tail · share: each round is a valid bound.
    rising = betaincinv(k, n - k + 1, tails * share)
    occurs &= rising >= share
    for _ in range(_ROUNDS):
        rising = betaincinv(k, n - k + 1, tails * rising)
    return np.asarray(np.where(occurs, rising, 0.0))


def most(count: Int64Array, sampled: Int64Array, size: Int64Array, tail: float) -> Float64Array:
    """Quick upper bounds, each of a value that does not depend on the sample."""
    return _upper(count, sampled, _reduced(tail, sampled, size))


def most_of_any(count: Int64Array, sampled: Int64Array, size: Int64Array, tail: float) -> Float64Array:
    """Quick upper bounds, which hold for all values of a window at once."""
    share, tails = _upper(count, sampled, np.full(len(count), 0.5)), _reduced(tail, sampled, size)
    # Above and below the solution of P(count or less | share) = tail · share in turn; the last one is above.
    for _ in range(_ROUNDS + 1):
        share = _upper(count, sampled, tails * share)
    return share


def _upper(count: Int64Array, sampled: Int64Array, tails: Float64Array) -> Float64Array:
    is_bounded = count < sampled
    others = np.where(is_bounded, sampled - count, 1).astype(np.float64)
    return np.asarray(np.where(is_bounded, betaincinv(count + 1.0, others, 1 - tails), 1.0))


def _reduced(tail: float, sampled: Int64Array, size: Int64Array) -> Float64Array:
    steps = -(-_STEPS * sampled // np.maximum(size, 1))
    return tail * np.maximum(1 - steps / _STEPS, 1e-6)


def least_in_window(count: Int64Array, sampled: Int64Array, size: Int64Array, tail: float) -> Float64Array:
    """The tightest `least`."""
    low, high = count.copy(), size - (sampled - count)
    while np.any(low < high):
        middle = (low + high) >> 1
        rejected = (count > 0) & (hypergeom.sf(count - 1, size, middle, sampled) <= tail * middle / size)
        low, high = np.where(rejected, np.minimum(middle + 1, high), low), np.where(rejected, high, middle)
    return np.asarray(low / size)


def most_in_window(
    count: Int64Array, sampled: Int64Array, size: Int64Array, tail: float, of_any: bool = False
) -> Float64Array:
    """The tightest `most`, or `most_of_any`."""
    low, high = count.copy(), size - (sampled - count)
    while np.any(low < high):
        middle = (low + high + 1) >> 1
        rejected = hypergeom.cdf(count, size, middle, sampled) <= tail * (middle / size if of_any else 1.0)
        low, high = np.where(rejected, low, middle), np.where(rejected, np.maximum(middle - 1, low), high)
    return np.asarray(low / size)


QUICK: tuple[Bounds, Bounds, Bounds] = (least, most, most_of_any)
TIGHT: tuple[Bounds, Bounds, Bounds] = (least_in_window, most_in_window, partial(most_in_window, of_any=True))


def _of_distinct(bounds: Bounds, count: Int64Array, sampled: Int64Array, size: Int64Array, tail: float) -> Float64Array:
    """The bounds, computed once for values with the same numbers."""
    steps = -(-_STEPS * sampled // np.maximum(size, 1))
    columns = (count, sampled, steps if bounds in QUICK else size)
    order = np.lexsort(columns)
    starts = run_starts(*(column[order] for column in columns))
    one = order[starts]
    shares = np.empty(len(count))
    shares[order] = bounds(count[one], sampled[one], size[one], tail)[run_numbers(starts, len(count))]
    return shares


def mode_error(
    first: Int64Array, second: Int64Array, sampled: Int64Array, size: Int64Array, confidence: float, allowed: float
) -> Float64Array:
    """The share by which a missed value may exceed the mode of a sample, whose two highest counts are given.

    If the mode of the window was missed, its count is at most the second. It is one value, whatever the sample, so its
    bound need not hold for others. That of the sample's mode must. Where the quick error is within the `allowed` one,
    the tight one is not computed.
    """
    tail = (1 - confidence) / 2

    def of(windows: Int64Array, bounds: tuple[Bounds, Bounds, Bounds]) -> Float64Array:
        lower, upper, _ = bounds
        numbers = sampled[windows], size[windows], tail
        return _of_distinct(upper, second[windows], *numbers) - _of_distinct(lower, first[windows], *numbers)

    return _refined(of, len(first), sampled, size, allowed)


def list_error(
    count: Int64Array,
    window: Int64Array,
    last: Int64Array,
    following: Int64Array,
    sampled: Int64Array,
    size: Int64Array,
    confidence: float,
    allowed: float,
) -> Float64Array:
    """The same for lists of the most frequent values, whose counts are estimates, too.

    Value i is reported, with `count[i]` in `window[i]`. In each window, `last` is the lowest count in the list, 0 if
    the list is not full, and `following` the highest one that is not in the list. The error is also the share by which
    the share of a reported value may be off.
    """
    tail = (1 - confidence) / 2

    def of(windows: Int64Array, bounds: tuple[Bounds, Bounds, Bounds]) -> Float64Array:
        lower, _, upper = bounds
        numbers = sampled[windows], size[windows], tail
        error = _of_distinct(upper, following[windows], *numbers) - _of_distinct(lower, last[windows], *numbers)
        position = np.full(len(size), -1)
        position[windows] = np.arange(len(windows))
        values = np.flatnonzero(position[window] >= 0)
        counts, of_value = count[values], window[values]
        numbers = sampled[of_value], size[of_value], tail
        share = counts / sampled[of_value]
        off = np.maximum(_of_distinct(upper, counts, *numbers) - share, share - _of_distinct(lower, counts, *numbers))
        np.maximum.at(error, position[of_value], off)
        return np.asarray(error)

    return _refined(of, len(size), sampled, size, allowed)


def _refined(
    of: Callable[[Int64Array, tuple[Bounds, Bounds, Bounds]], Float64Array],
    windows: int,
    sampled: Int64Array,
    size: Int64Array,
    allowed: float,
) -> Float64Array:
    """The quick errors of windows with samples, or tight ones where these are too large; others are infinite."""
    error = np.full(windows, np.inf)
    drawn = np.flatnonzero(sampled)
    error[drawn] = of(drawn, QUICK)
    small = np.flatnonzero((error > allowed) & (sampled > 0) & (size < MUCH_LARGER * sampled))
    if len(small):
        error[small] = of(small, TIGHT)
    return np.asarray(np.maximum(error, 0.0))


@lru_cache(maxsize=256)
def tuples_enough(as_list: bool, error: float, confidence: float) -> int:
    """About the sample size that limits the error to `error`, for windows of any size and any values.

    Shares are most uncertain if half of the sample has a value.
    """
    tail = (1 - confidence) / 2

    def worst(n: int) -> float:
        count = np.unique(np.linspace(max(n // 4, 1), max(n // 2, 1), 32).astype(np.int64))
        numbers = np.full(len(count), n), np.full(len(count), 1 << 60), tail
        upper = most_of_any(count, *numbers) if as_list else most(count, *numbers)
        return float(np.max(upper - least(count, *numbers)))

    low, high = 1, 2
    while worst(high) > error:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if worst(middle) <= error else (middle + 1, high)
    return low
