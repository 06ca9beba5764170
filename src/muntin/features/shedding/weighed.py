"""Counts and moments of all tuples, estimated from the kept ones by their weights.

They estimate variances, and what `.approximate` needs to know of windows to decide how large its samples are. They have
no intervals: those of totals are in `corrections`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import Float64Array, State
from muntin.partials.partial import Count, Field, Moments
from muntin.partials.rows import Rows


@dataclass(frozen=True)
class WeighedCount(Count):
    """How many of all tuples count."""

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("float64"),)

    def lift(self, rows: Rows) -> State:
        (groups,) = rows.select(self.inputs, self.where)
        return (np.bincount(groups, minlength=rows.group_count) * _weight(rows),)


@dataclass(frozen=True)
class WeighedMoments(Moments):
    """The moments of a column over all tuples."""

    def lift(self, rows: Rows) -> State:
        count, mean, squares = super().lift(rows)
        weight = _weight(rows)
        represented = count * weight
        # Unbiased: the sample's squares have one degree of freedom less.
        scaled = np.where(count > 1, squares * (represented - 1) / np.maximum(count - 1, 1), 0.0)
        return (represented, mean, np.where(weight > 1, scaled, squares))


def _weight(rows: Rows) -> Float64Array:
    """How many tuples each kept one represents, by group."""
    return np.ones(rows.group_count) if rows.strata is None else rows.strata.of_groups(rows.groups)
