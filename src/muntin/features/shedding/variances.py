"""Variances of windows from which tuples were shed, with large-sample intervals where these are valid.

The estimate is a ratio of two totals, squared distances over tuples. So its variance is that of a total of residuals,
each the squared distance less the variance (linearisation: Cochran, section 6.4), and adds up over strata. The mean
from which distances are measured is an estimate, too; the square of its error is added.

Estimates of variances are skewed, but their logarithms are roughly symmetric (Bonett, 2006). Their own variance is
estimated from fourth moments, which are less certain for heavier tails. No moment that panes could keep measures this
uncertainty, so the kurtosis is used instead.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muntin.arrays import Float64Array
from muntin.statistics.estimators import Interval
from muntin.statistics.student import deviates

FEWEST = 30
"""No interval is given below this effective sample size."""
PER_DEGREE = 6.0
"""Tuples per degree of freedom and unit of kurtosis, found by experiment.

From `FEWEST` tuples on, intervals are slightly wide for normal values and hold for moderately skewed ones; tests
measure how often."""
FEWEST_DEGREES = 2.0


def variance(estimates: Mapping[str, Float64Array], sample: bool, root: bool, confidence: float) -> Interval:
    """The variance from the `estimates` of the partial; its bounds are NaN where no interval is valid."""
    count = np.maximum(estimates["count"], 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        population = np.maximum(estimates["squares"] + estimates["variance"] / count, 0.0) / count
        half = _half(estimates, count, population, confidence)
        degrees = estimates["count"] - 1 if sample else estimates["count"]
        value = np.where(degrees > 0, population * count / np.where(degrees > 0, degrees, 1.0), np.nan)
        sides = [value * np.exp(-half), value, value * np.exp(half)]
    low, value, high = (np.sqrt(side) if root else side for side in sides)
    unknown = ~(np.isfinite(low) & np.isfinite(high))
    return Interval(value, np.where(unknown, np.nan, low), np.where(unknown, np.nan, high))


def _half(
    estimates: Mapping[str, Float64Array], count: Float64Array, population: Float64Array, confidence: float
) -> Float64Array:
    """The half-width of the interval of the variance's logarithm."""
    residuals = (
        estimates["squares_variance"]
        - 2 * population * estimates["count_covariance"]
        + population**2 * estimates["count_variance"]
    )
    linear, of_mean_error = np.maximum(residuals, 0.0) / count**2, estimates["variance"] / count**2
    scatter = (linear + 2 * of_mean_error**2) / population**2
    tuples = estimates["count"] ** 2 / np.maximum(estimates["weights"], 1.0)  # effective size (Kish)
    kurtosis = 1 + linear / (of_mean_error * population)
    degrees = np.minimum(tuples / (PER_DEGREE * kurtosis), np.maximum(tuples - 1, FEWEST_DEGREES))
    strata = np.where(
        estimates["certainty"] > 0, estimates["variance"] ** 2 / estimates["certainty"], np.inf
    )  # Satterthwaite
    degrees = np.maximum(np.minimum(degrees, strata), FEWEST_DEGREES)
    return np.where(tuples > FEWEST - 0.5, deviates(degrees, confidence) * np.sqrt(scatter), np.nan)
