"""The judgement of estimates: good enough, or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from muntin.arrays import BoolArray, Float64Array, Int64Array
from muntin.engine.estimates import EXACT, Estimates
from muntin.features.sampling.estimated import Estimate


@dataclass(frozen=True)
class Judged:
    """The estimates of all windows, and which are good enough."""

    estimates: Mapping[str, Estimate]
    error: Float64Array
    """The error of each answer's window: combined over its groups, the largest over the aggregates."""
    good: BoolArray
    """Whether the error is at most the allowed one."""
    sampled: Int64Array
    approximate: BoolArray
    """Whether the answer is good, and its sample is not the whole window."""


def from_samples(size: Int64Array, judged: Judged, confidence: float) -> Estimates:
    """The estimates of windows with these sizes."""
    low = {name: estimate.low for name, estimate in judged.estimates.items()}
    high = {name: estimate.high for name, estimate in judged.estimates.items()}
    approximate, sampled = np.flatnonzero(judged.approximate), judged.sampled
    if len(approximate) < len(size):
        sampled = np.where(judged.approximate, sampled, size)
    return Estimates(approximate, EXACT, judged.error[approximate], confidence, sampled, size, low, high)
