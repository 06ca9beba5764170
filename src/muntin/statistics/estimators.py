"""Estimates for windows from simple random samples of them, with confidence intervals.

All functions are vectorised over windows: `sampled` and `size` are the numbers of tuples in the sample and in the
window. Each interval has the given confidence. The variance of a mean has the finite-population correction of Cochran's
*Sampling Techniques*, so a sample that is the whole window has no error. Small samples get Student's t instead of the
normal deviate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, gammaincinv

from muntin.arrays import Float64Array, Int64Array, all_true
from muntin.statistics.student import deviates


@dataclass(frozen=True)
class Interval:
    """Estimates, and bounds of the true values, for any number of windows. NaN means unknown."""

    value: Float64Array
    low: Float64Array
    high: Float64Array
    half: Float64Array | None = None
    """The distance from the estimate to either bound, if it is the same."""

    @classmethod
    def around(cls, value: Float64Array, half: Float64Array) -> Interval:
        return cls(value, value - half, value + half, half)

    @property
    def relative_error(self) -> Float64Array:
        """The largest error of the estimate relative to the true value, over all true values in the interval."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.half is not None:
                least = np.abs(self.value) - self.half  # the least magnitude of the true value
                error, known = self.half / least, least > 0
            else:
                below, above = (self.value - self.low) / np.abs(self.low), (self.high - self.value) / np.abs(self.high)
                error = np.maximum(below, above)
                known = (self.low * self.high > 0) & ~np.isnan(error)
        if not all_true(known):
            error = np.where(known, error, np.where(self.low == self.high, 0.0, np.inf))
        return error

    def scaled(self, factor: Float64Array | Int64Array) -> Interval:
        with np.errstate(invalid="ignore"):
            return Interval(self.value * factor, self.low * factor, self.high * factor)


def mean(
    value: Float64Array, variance: Float64Array, sampled: Int64Array, size: Int64Array, confidence: float
) -> Interval:
    """The mean of a window, from the mean of its sample and a variance: that of all its values, or of its sample."""
    with np.errstate(invalid="ignore", divide="ignore"):
        half = deviate(sampled, confidence) * np.sqrt(variance / sampled * unsampled(sampled, size))
    half = np.where(sampled >= size, 0.0, half)
    with np.errstate(invalid="ignore"):
        return Interval(value, value - half, value + half)


def total(
    value: Float64Array, variance: Float64Array, sampled: Int64Array, size: Int64Array, confidence: float
) -> Interval:
    """The sum over a window, from the mean of its sample."""
    return mean(value, variance, sampled, size, confidence).scaled(size)


def count(matching: Int64Array | Float64Array, sampled: Int64Array, size: Int64Array, confidence: float) -> Interval:
    """The number of tuples of a window that meet a condition, which `matching` tuples of its sample meet."""
    shares = share(matching.astype(float), sampled.astype(float), confidence)
    complete = sampled >= size
    low, high = (np.where(complete, shares.value, bound) for bound in (shares.low, shares.high))
    return Interval(shares.value, low, high).scaled(size)


def share(matching: Float64Array, sampled: Float64Array, confidence: float) -> Interval:
    """The share of a large window that meets a condition (Clopper and Pearson, 1934)."""
    tail = (1 - confidence) / 2
    n, k = sampled, matching
    low = np.where(k > 0, betaincinv(np.where(k > 0, k, 1.0), n - k + 1, tail), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.where(k < n, n - k, 1.0), 1 - tail), 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Interval(k / n, low, high)


def variance(
    value: Float64Array, fourth_moment: Float64Array, sampled: Int64Array, size: Int64Array, confidence: float
) -> Interval:
    """The variance of a window: `value` is its sample's unbiased variance, `fourth_moment` the sample's, central.

    No normal distribution is assumed: the fourth moment determines how much sample variances vary.
    """
    n = sampled.astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.maximum(fourth_moment - value**2 * (n - 3) / (n - 1), 0.0) / n
        half = deviate(sampled, confidence) * np.sqrt(spread * unsampled(sampled, size))
    half = np.where(sampled >= size, 0.0, half)
    return Interval(value, np.maximum(value - half, 0.0), value + half)


def standard_deviation(
    value: Float64Array, fourth_moment: Float64Array, sampled: Int64Array, size: Int64Array, confidence: float
) -> Interval:
    squared = variance(value, fourth_moment, sampled, size, confidence)
    return Interval(np.sqrt(squared.value), np.sqrt(squared.low), np.sqrt(squared.high))


def ratio(over: Float64Array, under: Float64Array, size: int, confidence: float) -> Interval:
    """The ratio of two columns' sums over one window, from both columns of its sample (Cochran, section 6.4)."""
    n = np.array([len(over)])
    value = np.array([over.sum() / under.sum()]) if len(over) and under.sum() else np.array([np.nan])
    residual = over - value[0] * under
    scatter = np.array([residual.var(ddof=1) if len(over) > 1 else np.nan])
    interval = mean(np.zeros(1), scatter, n, np.array([size]), confidence)
    scale = abs(under.mean()) if len(under) else np.nan
    return Interval(value, value + interval.low / scale, value + interval.high / scale)


def distinct(priority: Float64Array, kept: Int64Array, confidence: float) -> Interval:
    """The number of distinct values, if `priority` is the `kept`-th smallest of their random priorities in (0, 1).

    Beyer, Haas, Reinwald, Sismanis and Gemulla (2007): the unbiased estimate is (k - 1) / u. The priorities are at
    worst a Poisson process, so that u has a gamma distribution.
    """
    tail = (1 - confidence) / 2
    k = kept.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Interval((k - 1) / priority, gammaincinv(k, tail) / priority, gammaincinv(k, 1 - tail) / priority)


def deviate(sampled: Int64Array, confidence: float) -> Float64Array:
    """Student's t for the sample; infinite for a single tuple, which has no variance."""
    return np.where(sampled > 1, deviates((sampled - 1).astype(np.float64), confidence), np.inf)


def unsampled(sampled: Int64Array, size: Int64Array) -> Float64Array:
    """The finite-population correction: the share of a window that is not in its sample."""
    return np.asarray(1 - sampled / np.maximum(size, 1))
