"""Bounds on how far a stratified estimate of a sum is from the sum, valid for every distribution of bounded values.

A sum over strata is estimated from a simple random sample of each, drawn without replacement. Of every stratum, the
number of values is known, and so are their least and greatest value, mean and variance: they are taken of all values,
before any is dropped. So no bound depends on what the sample happens to show, which is how intervals fail on skewed
values, rare values and ties. Three inequalities apply to the same known numbers:

* Bernstein's, for sums of independent bounded terms. Sampling without replacement is at least as concentrated
  (Hoeffding, *Probability Inequalities for Sums of Bounded Random Variables*, 1963, section 6).
* Serfling's (1974), for values in a range, which gains from the finite population.
* Chebyshev's, with the exact variance of the estimate.

The narrowest is chosen before any value is drawn, so no confidence is lost by the choice.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Float64Array


def half_width(
    variance: Float64Array,
    reach: Float64Array,
    squared_ranges: Float64Array,
    exact_variance: Float64Array,
    confidence: float,
) -> Float64Array:
    """How far the estimate is from the sum at most, with this confidence.

    `variance` is that of drawing with replacement, `exact_variance` that without; `reach` is the most that one drawn
    value can move the estimate from its mean, and `squared_ranges` are those of Serfling's inequality. See `stratum`.
    """
    doubt = 1 - confidence
    log = np.log(2 / doubt)
    with np.errstate(invalid="ignore", over="ignore"):
        bernstein = np.sqrt(2 * variance * log) + reach * log / 3
        serfling = np.sqrt(squared_ranges * log / 2)
        chebyshev = np.sqrt(exact_variance / doubt)
        # NaN, where the range is unknown, stays NaN.
        return np.asarray(np.minimum(np.minimum(bernstein, serfling), chebyshev))


def stratum(
    size: Float64Array,
    drawn: Float64Array,
    low: Float64Array,
    high: Float64Array,
    mean: Float64Array,
    squares: Float64Array,
) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
    """The four numbers above for the estimated sum of each stratum: all but the reach add up over strata.

    Of `size` values between `low` and `high`, `drawn` were drawn. `squares` is the sum of all squared distances from
    the mean. A stratum of which all or none are drawn adds nothing.
    """
    estimated = (drawn > 0) & (drawn < size)
    n, count = np.where(estimated, drawn, 1.0), np.where(estimated, size, 2.0)
    weight = count / n
    spread = np.where(estimated, squares, 0.0)
    variance = weight * spread
    exact_variance = weight * (count - n) / (count - 1) * spread
    width = np.where(estimated, high - low, 0.0)
    squared_ranges = weight * count * width**2 * (1 - (n - 1) / count)
    furthest = np.maximum(high - mean, mean - low)
    reach = np.where(estimated, weight * furthest, 0.0)
    return variance, reach, squared_ranges, exact_variance


def draws_for_a_mean(
    size: Float64Array,
    low: Float64Array,
    high: Float64Array,
    mean: Float64Array,
    squares: Float64Array,
    error: float,
    doubt: float,
) -> Float64Array:
    """How many draws without replacement bring the mean of each stratum within a relative error, but for the doubt.

    By Bernstein's or Serfling's inequality, whichever needs fewer. Both bound the moment generating function of the
    estimate, so strata that follow either can be added.
    """
    log, allowed = np.log(2 / doubt), error * np.abs(mean)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # reach·log/3 · r² + sqrt(2·variance·log) · r = allowed, for the root r of 1/draws
        linear = np.sqrt(2 * squares / np.maximum(size, 1) * log)
        square = np.maximum(high - mean, mean - low) * log / 3
        root = 2 * allowed / (linear + np.sqrt(linear**2 + 4 * square * allowed))
        bernstein = 1 / root**2
        serfling = _serfling(size, 2 * (allowed / (high - low)) ** 2 / log)
        draws = np.minimum(np.ceil(bernstein), np.ceil(serfling))
    alike = high == low
    return np.where(alike, np.minimum(size, 1.0), np.where(np.isnan(draws), size, np.minimum(draws, size)))


def draws_for_a_rank(size: Float64Array, error: float, doubt: float) -> Float64Array:
    """How many draws without replacement bring the rank of a quantile within an error, but for the doubt.

    The share of values below a point is a mean of zeros and ones. A quantile is off by more only if the share below the
    point that far away is, on one side or the other.
    """
    return np.minimum(np.ceil(_serfling(size, 2 * error**2 / np.log(2 / doubt))), size)


def _serfling(size: Float64Array, allowed: Float64Array | float) -> Float64Array:
    """The draws n for which (1 - (n - 1) / size) / n is what is allowed."""
    return np.asarray((size + 1) / (1 + allowed * size))
