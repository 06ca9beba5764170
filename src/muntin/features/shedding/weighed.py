"""What the tuples that were kept say of all: totals by the inverse of each stratum's rate, and how sure that is.

Strata are drawn independently of each other, so estimates and their variances add up from stratum to stratum, and so
from pane to pane (Cochran, *Sampling Techniques*, chapters 5 and 5A): they are one more partial of the pane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from muntin.arrays import Float64Array, Int64Array, Runs, State, all_true, any_true
from muntin.partials import values
from muntin.partials.partial import Field, Partial, sums
from muntin.partials.rows import Rows
from muntin.partials.strata import Strata

Estimates: TypeAlias = Mapping[str, Float64Array]
"""What is estimated of windows, by the names of the fields."""
FIELDS = ("count", "mean", "squares", "kept", "count_variance", "covariance", "variance", "certainty")
"""Of the tuples that count. `variance` is that of the sum of all distances from the mean, `covariance` that of this sum
and the count; `certainty` is what Satterthwaite's degrees of freedom are made of."""
OF_SQUARES = ("count_covariance", "sum_covariance", "squares_variance", "weights")
"""Of the sum of all squared distances from the mean: its covariances with the count and with the sum of distances, and
its variance. `weights` is the sum of all squared weights."""


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

    def reduce(self, state: State, runs: Runs) -> State:
        return (runs.sums(state[0]),)


@dataclass(frozen=True)
class Weighed(Partial):
    """Estimates of how many tuples count, of the mean of a column over them, and of its squared deviations."""

    column: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return FIELDS

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field("float64") for _ in self.names)

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def lift(self, rows: Rows) -> State:
        with np.errstate(all="ignore"):
            return _stratum(rows.strata, StratumMoments.of(rows, self.column, self.where))

    def combine(self, left: State, right: State) -> State:
        """As moments are merged, with the variances of both sides moved to the common mean."""
        count, mean = left[0] + right[0], np.where(left[0] == 0, right[1], left[1])
        with np.errstate(all="ignore"):
            apart, share = _apart(left, right)
            both = apart != 0
            mean = mean + np.where(both, apart * share, 0.0)
            mean = _beyond_the_finite(mean, left[0] * left[1] + right[0] * right[1], count)
            between = np.where(both, apart * apart * left[0] * share, 0.0)
            first, second = _moved(left, -apart * share), _moved(right, apart * (1 - share))
            squares = left[2] + right[2] + between
            rest = (a + b for a, b in zip((*first, left[7]), (*second, right[7]), strict=True))
            return (count, mean, squares, left[3] + right[3], left[4] + right[4], *rest)

    def reduce(self, state: State, runs: Runs) -> State:
        """All of a run at once, which comes to the same."""
        state, runs = runs.gathered(state)
        with np.errstate(all="ignore"):
            by, mean, count = _away(state, runs)
            squares = state[2] + np.where(by == 0, 0.0, state[0] * by * by)
            deviations, kept = runs.sums(squares), runs.sums(state[3])
            if any_true(state[4]) or any_true(state[5]):
                moved = (state[4], *_moved(state, by))
                count_variance, covariance, variance = (runs.sums(each) for each in moved)
            else:  # it is exact how many tuples count, so that it does not matter where distances are measured from
                count_variance = covariance = np.zeros(len(count))
                variance = runs.sums(state[6])
            return (count, mean, deviations, kept, count_variance, covariance, variance, runs.sums(state[7]))


@dataclass(frozen=True)
class WeighedSquares(Weighed):
    """The same, and how far off the squared deviations may be: that takes their covariances, and fourth moments."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*FIELDS, *OF_SQUARES)

    def lift(self, rows: Rows) -> State:
        with np.errstate(all="ignore"):
            drawn = StratumMoments.of(rows, self.column, self.where)
            return (*_stratum(rows.strata, drawn), *_squares(rows.strata, drawn))

    def combine(self, left: State, right: State) -> State:
        with np.errstate(all="ignore"):
            apart, share = _apart(left, right)
            first, second = _squares_moved(left, -apart * share), _squares_moved(right, apart * (1 - share))
            rest = (a + b for a, b in zip((*first, left[-1]), (*second, right[-1]), strict=True))
            return (*super().combine(left, right), *rest)

    def reduce(self, state: State, runs: Runs) -> State:
        state, runs = runs.gathered(state)
        with np.errstate(all="ignore"):
            moved = (*_squares_moved(state, _away(state, runs)[0]), state[-1])
            return (*super().reduce(state, runs), *(runs.sums(each) for each in moved))


@dataclass(frozen=True)
class StratumMoments:
    """What was kept of every stratum: `kept` tuples, of which `counting` count, with these moments."""

    groups: Int64Array
    away: Float64Array
    """How far each tuple that counts is from the mean of its stratum."""
    kept: Float64Array
    counting: Float64Array
    mean: Float64Array
    squares: Float64Array

    @classmethod
    def of(cls, rows: Rows, column: str | None, where: str | None) -> StratumMoments:
        numbers = np.zeros(len(rows.groups))  # of what is no number, it is counted how often it is there
        if column is not None and values.is_numeric(rows.array(column).type):
            numbers = rows.numbers(column)
        groups, numbers = rows.select(() if column is None else (column,), where, numbers)
        size = rows.group_count
        counting = np.bincount(groups, minlength=size).astype(np.float64)
        # Measured from one of the values, so that values that are all alike have no distance from their mean.
        some = np.zeros(size)
        some[groups] = numbers
        some = np.where(np.isfinite(some), some, 0.0)
        away = numbers - some[groups]
        shift = sums(groups, away, size) / np.maximum(counting, 1)
        away, mean = away - shift[groups], some + shift
        kept = np.bincount(rows.groups, minlength=size).astype(np.float64)
        return cls(groups, away, kept, counting, mean, sums(groups, away**2, size))

    @property
    def nothing(self) -> Float64Array:
        return np.zeros(len(self.kept))

    def moment(self, power: int) -> Float64Array:
        return sums(self.groups, self.away**power, len(self.kept))

    def weight(self, strata: Strata) -> Float64Array | float:
        """How many tuples each kept one stands for."""
        return strata.received / np.maximum(self.kept, 1) if strata.probability is None else 1 / strata.probability

    def spread(self, strata: Strata) -> Float64Array:
        """What squares within a stratum are multiplied by for the variance of its total."""
        if strata.probability is not None:
            return np.full(len(self.kept), (1 - strata.probability) / strata.probability**2)
        weight = strata.received / np.maximum(self.kept, 1)
        drawn = np.maximum(self.kept - 1, 1)
        return np.where(self.kept < strata.received, strata.received * (weight - 1) / drawn, 0.0)


def _stratum(strata: Strata | None, of: StratumMoments) -> State:
    nothing, counting = of.nothing, of.counting
    if strata is None:  # nothing was dropped
        return (counting, of.mean, of.squares, counting, nothing, nothing, nothing, nothing)
    weight, spread = of.weight(strata), of.spread(strata)
    count, variance = counting * weight, spread * of.squares
    if strata.probability is not None:
        return (count, of.mean, of.squares * weight, counting, spread * counting, nothing, variance, nothing)
    count_variance = spread * counting * (1 - counting / np.maximum(of.kept, 1))
    # Unbiased: the deviations within the stratum, less what the merging adds because the mean is only an estimate.
    scaled = np.where(counting > 1, (count - 1) / np.maximum(counting - 1, 1) * of.squares, 0.0)
    deviations = scaled - variance / np.maximum(count, 1)
    certainty = variance**2 / np.maximum(of.kept - 1, 1)
    return (count, of.mean, deviations, counting, count_variance, nothing, variance, certainty)


def _squares(strata: Strata | None, of: StratumMoments) -> State:
    if strata is None:
        return (of.nothing, of.nothing, of.nothing, of.counting)
    kept, spread, cubes, fourth = np.maximum(of.kept, 1), of.spread(strata), of.moment(3), of.moment(4)
    weights = of.counting * of.weight(strata) ** 2
    if strata.probability is not None:
        return (spread * of.squares, spread * cubes, spread * fourth, weights)
    with_count = of.squares * (1 - of.counting / kept)
    return (spread * with_count, spread * cubes, spread * np.maximum(fourth - of.squares**2 / kept, 0.0), weights)


def _apart(left: State, right: State) -> tuple[Float64Array, Float64Array]:
    """How far the means of both sides are apart, if both have one, and the right one's share of the tuples."""
    count = left[0] + right[0]
    both = (left[0] > 0) & (right[0] > 0)
    return np.where(both, right[1] - left[1], 0.0), right[0] / np.where(count > 0, count, 1)


def _away(state: State, runs: Runs) -> tuple[Float64Array, Float64Array, Float64Array]:
    """How far each mean is from that of its run, and that, and of how many tuples it is.

    It is found by the distances from the first that there is, so that equal ones stay so.
    """
    count, mean = state[:2]
    there, total = count > 0, runs.sums(count)
    if all_true(there) and all_true(np.isfinite(mean)):
        some = mean[runs.starts]
        apart = mean - runs.repeated(some)
        shift = runs.sums(apart * count) / total
        return apart - runs.repeated(shift), some + shift, total
    first = runs.least(np.where(there, np.arange(len(mean)), len(mean)))
    some = np.append(mean, 0.0)[first]
    of_run = runs.repeated(some)
    apart = np.where(there & (mean != of_run), mean - of_run, 0.0)  # of infinities, too
    shift = runs.sums(apart * count) / np.where(total > 0, total, 1.0)
    common = _beyond_the_finite(some + shift, runs.sums(count * mean), total)
    return np.where(there, apart - runs.repeated(shift), 0.0), common, total


def _beyond_the_finite(mean: Float64Array, total: Float64Array, count: Float64Array) -> Float64Array:
    """The mean by the sum of the values where one of them is infinite: then it has no distance from any other."""
    infinite = ~np.isfinite(mean)
    return np.where(infinite, total / np.where(count > 0, count, 1.0), mean) if any_true(infinite) else mean


def _moved(state: State, by: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Covariance and variance of the sum of distances, when the point that they are measured from moves."""
    count_variance, covariance, variance = state[4:7]
    still = by == 0
    moved = np.where(still, 0.0, 2 * by * covariance + by * by * count_variance)
    return covariance + np.where(still, 0.0, by * count_variance), variance + moved


def _squares_moved(state: State, by: Float64Array) -> tuple[Float64Array, ...]:
    """The same for the sum of squares: each distance d becomes d + by, each square d² + 2 by d + by²."""
    count, both, distance, of_count, of_sum, squares = *state[4:7], *state[8:11]
    still = by == 0
    moves = (
        2 * by * both + by**2 * count,
        by * (2 * distance + of_count) + 3 * by**2 * both + by**3 * count,
        4 * by * of_sum + by**2 * (2 * of_count + 4 * distance) + 4 * by**3 * both + by**4 * count,
    )
    return tuple(old + np.where(still, 0.0, move) for old, move in zip((of_count, of_sum, squares), moves, strict=True))
