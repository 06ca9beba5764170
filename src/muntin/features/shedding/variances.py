"""Variances of windows of which tuples were shed, with intervals: a large-sample interval that knows when it is none.

The estimate is a ratio of two totals, of squared distances and of tuples, so that its variance is that of a total of
residuals, each the squared distance less the variance (linearisation: Cochran, section 6.4). It adds up over strata
like that of any total. The mean from which distances are measured is an estimate, too: the square of its own error
comes on top.

Estimates of variances are skewed, and about symmetric as logarithms (Bonett, 2006). How large their own variance is has
to be estimated as well, from fourth moments, which is the less certain the heavier the tails are. No moment that panes
could keep tells how uncertain that is; the kurtosis stands in for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muntin.arrays import Float64Array
from muntin.statistics.estimators import Interval
from muntin.statistics.student import deviates

FEWEST = 30
"""With fewer tuples, as far as equal ones would tell as much, no interval is told."""
PER_DEGREE = 6.0
"""So many tuples count as a degree of freedom if the kurtosis is 1; with a larger one, as many times more. With this,
intervals are a little wide for normal values and hold for moderately skewed ones, from `FEWEST` tuples on. It was
found by trying, and the tests say how often they hold."""
FEWEST_DEGREES = 2.0


def variance(of: Mapping[str, Float64Array], sample: bool, root: bool, confidence: float) -> Interval:
    """`of` are the estimates of the partial; NaN where no interval can be told."""
    count = np.maximum(of["count"], 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        population = np.maximum(of["squares"] + of["variance"] / count, 0.0) / count
        half = _half(of, count, population, confidence)
        degrees = of["count"] - 1 if sample else of["count"]
        value = np.where(degrees > 0, population * count / np.where(degrees > 0, degrees, 1.0), np.nan)
        sides = [value * np.exp(-half), value, value * np.exp(half)]
    low, value, high = (np.sqrt(each) if root else each for each in sides)
    unknown = ~(np.isfinite(low) & np.isfinite(high))
    return Interval(value, np.where(unknown, np.nan, low), np.where(unknown, np.nan, high))


def _half(
    of: Mapping[str, Float64Array], count: Float64Array, population: Float64Array, confidence: float
) -> Float64Array:
    """How far the logarithm of the variance may be off."""
    residuals = of["squares_variance"] - 2 * population * of["count_covariance"] + population**2 * of["count_variance"]
    linear, of_mean = np.maximum(residuals, 0.0) / count**2, of["variance"] / count**2
    scatter = (linear + 2 * of_mean**2) / population**2
    tuples = of["count"] ** 2 / np.maximum(of["weights"], 1.0)  # as many of equal weight would tell as much (Kish)
    kurtosis = 1 + linear / (of_mean * population)
    degrees = np.minimum(tuples / (PER_DEGREE * kurtosis), np.maximum(tuples - 1, FEWEST_DEGREES))
    strata = np.where(of["certainty"] > 0, of["variance"] ** 2 / of["certainty"], np.inf)  # Satterthwaite
    degrees = np.maximum(np.minimum(degrees, strata), FEWEST_DEGREES)
    return np.where(tuples > FEWEST - 0.5, deviates(degrees, confidence) * np.sqrt(scatter), np.nan)
