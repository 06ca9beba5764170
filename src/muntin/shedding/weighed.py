"""What the tuples that were kept say of all: totals by the inverse of each stratum's rate, and how sure that is.

Strata are drawn independently of each other, so estimates and their variances add up from stratum to stratum, and so
from pane to pane (Cochran, *Sampling Techniques*, chapters 5 and 5A): they are one more partial of the pane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.aggregates import values
from muntin.aggregates.partial import Field, Partial, sums
from muntin.aggregates.rows import Rows
from muntin.arrays import Float64Array, State

FIELDS = ("count", "mean", "squares", "kept", "count_variance", "covariance", "variance", "certainty")
"""Of the tuples that count. `variance` is that of the sum of all distances from the mean, `covariance` that of this sum
and the count; `certainty` is what Satterthwaite's degrees of freedom are made of."""


@dataclass(frozen=True)
class Kept(Partial):
    """How many tuples were kept."""

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("int64"),)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def lift(self, rows: Rows) -> State:
        return (np.bincount(rows.groups, minlength=rows.group_count),)

    def combine(self, left: State, right: State) -> State:
        return (left[0] + right[0],)


@dataclass(frozen=True)
class Weighed(Partial):
    """Estimates of how many tuples count, of the mean of a column over them, and of its squared deviations."""

    column: str | None

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field("float64") for _ in FIELDS)

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def lift(self, rows: Rows) -> State:
        numbers = np.zeros(len(rows.groups))  # of what is no number, it is counted how often it is there
        if self.column is not None and values.is_numeric(rows.array(self.column).type):
            numbers = rows.numbers(self.column)
        groups, numbers = rows.select(self.inputs, self.where, numbers)
        size = rows.group_count
        counting = np.bincount(groups, minlength=size).astype(np.float64)
        with np.errstate(all="ignore"):
            mean = sums(groups, numbers, size) / np.maximum(counting, 1)
            squares = sums(groups, (numbers - mean[groups]) ** 2, size)
            kept = np.bincount(rows.groups, minlength=size).astype(np.float64)
            return _stratum(rows, kept, counting, mean, squares)

    def combine(self, left: State, right: State) -> State:
        """As moments are merged, with the variances of both sides moved to the common mean."""
        count, mean = left[0] + right[0], np.where(left[0] == 0, right[1], left[1])
        both = (left[0] > 0) & (right[0] > 0)
        with np.errstate(all="ignore"):
            share = right[0] / np.where(count > 0, count, 1)
            apart = np.where(both, right[1] - left[1], 0.0)
            mean = mean + np.where(both, apart * share, 0.0)
            between = np.where(both, apart * apart * left[0] * share, 0.0)
            first, second = _moved(left, -apart * share), _moved(right, apart * (1 - share))
            squares = left[2] + right[2] + between
            rest = (a + b for a, b in zip((*first, left[7]), (*second, right[7]), strict=True))
            return (count, mean, squares, left[3] + right[3], left[4] + right[4], *rest)


def _stratum(
    rows: Rows, kept: Float64Array, counting: Float64Array, mean: Float64Array, squares: Float64Array
) -> State:
    """`kept` tuples of every stratum, of which `counting` count, with these moments."""
    strata = rows.strata
    if strata is None:  # nothing was dropped
        nothing = np.zeros(len(kept))
        return (counting, mean, squares, counting, nothing, nothing, nothing, nothing)
    weight = strata.received / np.maximum(kept, 1)
    count = counting * weight
    if strata.by_chance is not None:
        factor = (1 - strata.by_chance) / strata.by_chance**2
        nothing = np.zeros(len(kept))
        return (count, mean, squares * weight, counting, factor * counting, nothing, factor * squares, nothing)
    drawn = np.maximum(kept - 1, 1)
    spread = np.where(kept < strata.received, strata.received * (weight - 1) / drawn, 0.0)
    variance = spread * squares
    count_variance = spread * counting * (1 - counting / np.maximum(kept, 1))
    # Unbiased: the deviations within the stratum, less what the merging adds because the mean is only an estimate.
    scaled = np.where(counting > 1, (count - 1) / np.maximum(counting - 1, 1) * squares, 0.0)
    deviations = scaled - variance / np.maximum(count, 1)
    return (count, mean, deviations, counting, count_variance, np.zeros(len(kept)), variance, variance**2 / drawn)


def _moved(state: State, by: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Covariance and variance of the sum of distances, when the point that they are measured from moves."""
    _, _, _, _, count_variance, covariance, variance, _ = state
    still = by == 0
    moved = np.where(still, 0.0, 2 * by * covariance + by * by * count_variance)
    return covariance + np.where(still, 0.0, by * count_variance), variance + moved
