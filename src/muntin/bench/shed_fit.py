"""A window function: a polynomial fit that is robust against outliers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array

SCHEMA = pa.schema([("level", pa.float64()), ("slope", pa.float64())])
"""Value and slope of the polynomial at the end of the window."""


@dataclass(frozen=True)
class Fit:
    """Iteratively reweighted least squares of `value` by `time`: tuples far from the last fit weigh less."""

    degree: int
    rounds: int

    def __call__(self, window: pa.Table) -> pa.Table:
        times = window["time"].cast(pa.int64()).to_numpy()
        positions = (times - times[-1]) / max(int(times[-1] - times[0]), 1)
        coefficients = self.fitted(positions, window["value"].to_numpy().astype(np.float64))
        return pa.table(
            {"level": [coefficients[0]], "slope": [coefficients[1] if len(coefficients) > 1 else 0.0]}, schema=SCHEMA
        )

    def fitted(self, positions: Float64Array, values: Float64Array) -> Float64Array:
        """The coefficients, the constant first."""
        powers = np.vander(positions, min(self.degree, len(positions) - 1) + 1, increasing=True)
        weight = np.ones(len(values))
        for _ in range(self.rounds):
            coefficients = np.linalg.lstsq(powers * weight[:, None], values * weight, rcond=None)[0]
            residuals = np.abs(values - powers @ coefficients)
            median_residual = float(np.median(residuals))
            weight = (
                np.sqrt(np.minimum(1.0, median_residual / np.maximum(residuals, 1e-12))) if median_residual else weight
            )
        return np.asarray(coefficients)
