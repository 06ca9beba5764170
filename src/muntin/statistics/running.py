"""The running statistics of the values that an aggregate is of."""

from __future__ import annotations

COUNT, VARIANCE, MEAN = "count", "variance", "mean"
LOW, HIGH = "low", "high"
"""The least and the greatest of them."""
