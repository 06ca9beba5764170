"""The running statistics of the values that an aggregate is of."""

from __future__ import annotations

COUNT, VARIANCE, MEAN = "count", "variance", "mean"
