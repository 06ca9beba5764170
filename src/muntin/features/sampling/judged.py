"""What is to be thought of the samples of windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from muntin.arrays import BoolArray, Float64Array, Int64Array
from muntin.engine.estimates import EXACT, Estimates
from muntin.features.sampling.estimated import Estimate


@dataclass(frozen=True)
class Judged:
    """Estimates for all windows, and what is to be thought of them."""

    estimates: Mapping[str, Estimate]
    error: Float64Array
    """Of the window that each answer belongs to: the groups' errors combined, and the worst of the aggregates."""
    good: BoolArray
    """Whether that is within what the user allows."""
    sampled: Int64Array
    approximate: BoolArray
    """Whether it is good, and not all there is."""


def from_samples(size: Int64Array, judged: Judged, confidence: float) -> Estimates:
    """The estimates of windows of so many tuples each."""
    low = {name: estimate.low for name, estimate in judged.estimates.items()}
    high = {name: estimate.high for name, estimate in judged.estimates.items()}
    approximate, sampled = np.flatnonzero(judged.approximate), judged.sampled
    if len(approximate) < len(size):
        sampled = np.where(judged.approximate, sampled, size)
    return Estimates(approximate, EXACT, judged.error[approximate], confidence, sampled, size, low, high)
