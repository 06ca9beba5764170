"""The estimator of variances and standard deviations.

With the mean of the whole window, which its panes have, a variance is the mean of squared distances, and a sample
estimates that without bias. A sample of skewed values shows too little of how much its variance may be off. So the
bounds follow from what the panes know of all values: their mean and variance, and how far from the mean the least and
greatest of them are. They hold for every distribution, like those of `.shed`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array, Int64Array
from muntin.features.sampling.estimated import Estimate, Estimator, SampledWindows, Statistics, finite
from muntin.features.sampling.policy import Approximation
from muntin.statistics.bounded import half_width, stratum
from muntin.statistics.running import COUNT, HIGH, LOW, MEAN, VARIANCE


@dataclass(frozen=True)
class SpreadEstimator(Estimator):
    column: str
    where: str | None
    sample: bool
    """Whether it is divided by one less than the number of values."""
    root: bool
    """Whether it is the standard deviation."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,) if self.where is None else (self.column, self.where)

    def estimate(self, windows: SampledWindows, statistics: Statistics) -> Estimate:
        selected = windows.contents.selected(self.column, self.where)
        n, size = selected.sizes, statistics[COUNT]
        sampled = np.flatnonzero(n)
        squares = np.zeros(len(n))
        with np.errstate(invalid="ignore", over="ignore"):  # infinities have no error
            if len(sampled):
                distance = selected.numbers - np.repeat(statistics[MEAN], n)
                squares[sampled] = np.add.reduceat(distance**2, selected.begin[sampled])
            estimate = squares / np.where(n > 0, n, np.nan)
            half = self._half(n, statistics, windows.confidence)
            low, high = np.maximum(estimate - half, 0), estimate + half
            error = half / statistics[VARIANCE]
            if self.root:
                error = np.maximum(1 - np.sqrt(np.maximum(1 - error, 0)), np.sqrt(1 + error) - 1)
        nothing = size <= self.sample
        unknown = nothing | (n == 0)
        error = np.where(half == 0, 0.0, np.where(np.isnan(error), np.inf, error))
        values, lows, highs = (self._scaled(variance, size) for variance in (estimate, low, high))
        return Estimate(
            pa.array(values, mask=unknown | np.isnan(values)),
            np.where(nothing, 0.0, np.where(n > 0, error, np.inf)),
            *(pa.array(np.where(unknown, np.nan, side), from_pandas=True) for side in (lows, highs)),
        )

    def _scaled(self, variance: Float64Array, size: Float64Array) -> Float64Array:
        scaled = variance * size / np.maximum(size - 1, 1) if self.sample else variance
        return np.sqrt(scaled) if self.root else scaled

    def _half(self, n: Int64Array, statistics: Statistics, confidence: float) -> Float64Array:
        """How far the population variance may be off: the mean of squared distances, none of which exceeds `furthest`.

        Their own variance is at most that of values which are 0 or `furthest` (Bhatia and Davis, 2000).
        """
        size, variance = statistics[COUNT], statistics[VARIANCE]
        furthest = _furthest(statistics)
        spread = np.maximum(variance * (furthest - variance), 0)
        numbers = stratum(size, n.astype(np.float64), np.zeros(len(n)), furthest, variance, size * spread)
        half = half_width(*numbers, confidence) / np.maximum(size, 1)
        return np.where(n >= size, 0.0, half)

    def explained(self, policy: Approximation) -> str:
        return "the error is relative, and depends on the variance and the range of the window"

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        count, variance = np.maximum(statistics[COUNT], 1), statistics[VARIANCE]
        allowed = 1 - (1 - policy.error) ** 2 if self.root else policy.error
        log = np.log(2 / (1 - policy.confidence))
        with np.errstate(divide="ignore", invalid="ignore"):
            peak = _furthest(statistics) / variance  # Bernstein's inequality, for the number of draws
            draws = log * (2 * np.maximum(peak - 1, 0) / allowed**2 + peak / (3 * allowed)) * 1.2
        return finite(np.minimum(draws, count) / (count / np.maximum(size, 1)), size)


def _furthest(statistics: Statistics) -> Float64Array:
    """The largest squared distance of a value from the mean."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.maximum(statistics[HIGH] - statistics[MEAN], statistics[MEAN] - statistics[LOW]) ** 2)
