"""The algo-trader's function of a window: a polynomial through its prices, by Levenberg's and Marquardt's method."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
from numpy.polynomial import polynomial
from scipy.optimize import least_squares

from muntin.arrays import Float64Array

SCHEMA = "price double, trend double, tuples long, nanoseconds long"
"""The polynomial and its slope at the end of the window, of how many tuples, and what it took."""


@dataclass(frozen=True)
class Fit:
    """Section 5.1 of the paper. Of polynomials of several degrees, the best by Akaike's criterion is taken."""

    degrees: tuple[int, ...] = (2,)

    @property
    def title(self) -> str:
        return f"fits of degree {', '.join(map(str, self.degrees))}"

    def __call__(self, window: pa.Table) -> pa.Table:
        begun = perf_counter_ns()
        times = window["ts"].cast(pa.int64()).to_numpy()
        place = (times - times[-1]) / max(int(times[-1] - times[0]), 1)
        found = self.fitted(place, window["value"].to_numpy())
        trend = float(found[1]) if len(found) > 1 else 0.0
        # It runs in a process of Spark's, and only results come back: so they say how long it took.
        taken = perf_counter_ns() - begun
        return pa.table({"price": [float(found[0])], "trend": [trend], "tuples": [len(times)], "nanoseconds": [taken]})

    def fitted(self, place: Float64Array, prices: Float64Array) -> Float64Array:
        """The coefficients, the constant one first."""
        found = [_fitted(place, prices, degree) for degree in {min(each, len(place) - 1) for each in self.degrees}]
        return found[0] if len(found) == 1 else min(found, key=lambda each: _criterion(place, prices, each))


def _fitted(place: Float64Array, prices: Float64Array, degree: int) -> Float64Array:
    begin = np.zeros(degree + 1)
    begin[0] = prices[-1]

    def off(coefficients: Float64Array) -> Float64Array:
        return np.asarray(polynomial.polyval(place, coefficients) - prices)

    return np.asarray(least_squares(off, begin, method="lm").x)


def _criterion(place: Float64Array, prices: Float64Array, coefficients: Float64Array) -> float:
    squares = float(np.sum((polynomial.polyval(place, coefficients) - prices) ** 2))
    return len(place) * float(np.log(max(squares, 1e-300) / len(place))) + 2 * len(coefficients)


def last(window: pa.Table) -> pa.Table:
    """Next to nothing, where only what is sent counts."""
    return pa.table({"price": window["value"][-1:]})
