"""The window function of the algo-trader: a polynomial through the prices, fitted by Levenberg–Marquardt."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
from numpy.polynomial import polynomial
from scipy.optimize import least_squares

from muntin.arrays import Float64Array

SCHEMA = "price double, trend double, tuples long, nanoseconds long"
"""Value and slope of the polynomial at the end of the window, the number of tuples, and the time of the call."""


@dataclass(frozen=True)
class Fit:
    """Section 5.1 of Mencagli et al. (2018). Of several degrees, the best by Akaike's criterion wins."""

    degrees: tuple[int, ...] = (2,)

    @property
    def title(self) -> str:
        return f"fits of degree {', '.join(map(str, self.degrees))}"

    def __call__(self, window: pa.Table) -> pa.Table:
        begun = perf_counter_ns()
        times = window["ts"].cast(pa.int64()).to_numpy()
        positions = (times - times[-1]) / max(int(times[-1] - times[0]), 1)
        coefficients = self.fitted(positions, window["value"].to_numpy())
        trend = float(coefficients[1]) if len(coefficients) > 1 else 0.0
        # The function runs in a process of Spark and returns only results, so these carry its time.
        nanoseconds = perf_counter_ns() - begun
        return pa.table(
            {"price": [float(coefficients[0])], "trend": [trend], "tuples": [len(times)], "nanoseconds": [nanoseconds]}
        )

    def fitted(self, positions: Float64Array, prices: Float64Array) -> Float64Array:
        """The coefficients, the constant first."""
        fits = [
            _fitted(positions, prices, degree)
            for degree in {min(degree, len(positions) - 1) for degree in self.degrees}
        ]
        return (
            fits[0]
            if len(fits) == 1
            else min(fits, key=lambda coefficients: _criterion(positions, prices, coefficients))
        )


def _fitted(positions: Float64Array, prices: Float64Array, degree: int) -> Float64Array:
    initial = np.zeros(degree + 1)
    initial[0] = prices[-1]

    def residuals(coefficients: Float64Array) -> Float64Array:
        return np.asarray(polynomial.polyval(positions, coefficients) - prices)

    return np.asarray(least_squares(residuals, initial, method="lm").x)


def _criterion(positions: Float64Array, prices: Float64Array, coefficients: Float64Array) -> float:
    squares = float(np.sum((polynomial.polyval(positions, coefficients) - prices) ** 2))
    return len(positions) * float(np.log(max(squares, 1e-300) / len(positions))) + 2 * len(coefficients)


def last(window: pa.Table) -> pa.Table:
    """A function that takes almost no time, to measure what is sent."""
    return pa.table({"price": window["value"][-1:]})
