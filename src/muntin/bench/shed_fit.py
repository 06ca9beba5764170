"""A function of whole windows: a polynomial that is fitted to the tuples, and that outliers do not bend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array

SCHEMA = pa.schema([("level", pa.float64()), ("slope", pa.float64())])
"""Of the polynomial at the end of the window."""


@dataclass(frozen=True)
class Fit:
    """Least squares of `value` by `time`, again and again, where what was far off the last time weighs less."""

    degree: int
    rounds: int

    def __call__(self, window: pa.Table) -> pa.Table:
        times = window["time"].cast(pa.int64()).to_numpy()
        place = (times - times[-1]) / max(int(times[-1] - times[0]), 1)
        found = self.fitted(place, window["value"].to_numpy().astype(np.float64))
        return pa.table({"level": [found[0]], "slope": [found[1] if len(found) > 1 else 0.0]}, schema=SCHEMA)

    def fitted(self, place: Float64Array, values: Float64Array) -> Float64Array:
        """The coefficients, the constant one first."""
        powers = np.vander(place, min(self.degree, len(place) - 1) + 1, increasing=True)
        weight = np.ones(len(values))
        for _ in range(self.rounds):
            found = np.linalg.lstsq(powers * weight[:, None], values * weight, rcond=None)[0]
            off = np.abs(values - powers @ found)
            usual = float(np.median(off))
            weight = np.sqrt(np.minimum(1.0, usual / np.maximum(off, 1e-12))) if usual else weight
        return np.asarray(found)
