"""Student's t: the half-width of an interval in standard errors, by its degrees of freedom."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtri, stdtrit

from muntin.arrays import Float64Array

NODES = 1 << 12


def deviates(degrees: Float64Array, confidence: float) -> Float64Array:
    """Deviates by degrees of freedom, which are at least one and may be fractions; NaN counts as one.

    SciPy takes a third of a microsecond for each, and every group of a window has its own. But deviates are smooth in
    the reciprocal of the degrees, so linear interpolation in a table gives six digits.
    """
    nodes, steps = _table(confidence)
    position = NODES / np.fmax(degrees, 1.0)
    before = position.astype(np.intp)
    return np.asarray(nodes.take(before) + (position - before) * steps.take(before))


@lru_cache(maxsize=16)
def _table(confidence: float) -> tuple[Float64Array, Float64Array]:
    """Deviates for `NODES / i` degrees of freedom, i from 0 (infinitely many) to `NODES` (one), and their steps."""
    upper = 1 - (1 - confidence) / 2
    finite = stdtrit(NODES / np.arange(1, NODES + 1), upper)
    nodes = np.concatenate([[ndtri(upper)], finite])  # infinitely many degrees: the normal deviate
    return nodes, np.diff(nodes, append=nodes[-1])
