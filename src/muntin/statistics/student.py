"""Student's t: how many standard errors an interval is wide, by its degrees of freedom."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtri, stdtrit

from muntin.arrays import Float64Array

NODES = 1 << 12


def deviates(degrees: Float64Array, confidence: float) -> Float64Array:
    """Of at least one degree of freedom each, which need not be whole; what is no number is taken for one.

    To find one of them takes SciPy a third of a microsecond, and every group of a window has its own. But they are
    smooth in the reciprocal of the degrees, so a line between neighbours of a table says them to the sixth digit.
    """
    nodes, steps = _table(confidence)
    place = NODES / np.fmax(degrees, 1.0)
    before = place.astype(np.intp)
    return np.asarray(nodes.take(before) + (place - before) * steps.take(before))


@lru_cache(maxsize=16)
def _table(confidence: float) -> tuple[Float64Array, Float64Array]:
    """Deviates for as many degrees as `NODES` has parts: for all of them, for one less, down to one."""
    upper = 1 - (1 - confidence) / 2
    finite = stdtrit(NODES / np.arange(1, NODES + 1), upper)
    nodes = np.concatenate([[ndtri(upper)], finite])  # at no reciprocal at all it is the normal one
    return nodes, np.diff(nodes, append=nodes[-1])
