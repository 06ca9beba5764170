"""Estimates for all tuples from the kept ones: totals by the inverse of each stratum's rate, with their variances.

Strata are drawn independently of each other, so estimates and variances add up over strata, and therefore over panes
(Cochran, *Sampling Techniques*, chapters 5 and 5A). So they are one more partial of the pane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from muntin.arrays import Float64Array, Int64Array, Runs, State, all_true, any_true
from muntin.partials import values
from muntin.partials.partial import Field, Partial, sums
from muntin.partials.rows import Rows
from muntin.partials.strata import Strata

Estimates: TypeAlias = Mapping[str, Float64Array]
"""Estimates of windows, by the names of the fields."""


class Moments(NamedTuple):
    """The fields of `Weighed`, over the tuples that count."""

    count: Float64Array  # type: ignore[assignment]  # hides tuple.count
    mean: Float64Array
    squares: Float64Array
    """The sum of the squared distances from the mean."""
    kept: Float64Array
    count_variance: Float64Array
    covariance: Float64Array
    """That of the count and the sum of all distances from the mean."""
    variance: Float64Array
    """That of the sum of all distances from the mean."""
    certainty: Float64Array
    """The term from which Satterthwaite's degrees of freedom are computed."""


class SquareMoments(NamedTuple):
    """What `WeighedSquares` adds, over the sum of all squared distances from the mean."""

    count_covariance: Float64Array
    """That of this sum and the count."""
    sum_covariance: Float64Array
    """That of this sum and the sum of distances."""
    squares_variance: Float64Array
    """The variance of this sum."""
    weights: Float64Array
    """The sum of all squared weights."""


FIELDS = Moments._fields
OF_SQUARES = SquareMoments._fields


def _moments(state: State) -> Moments:
    return Moments._make(state[: len(FIELDS)])


def _square_moments(state: State) -> SquareMoments:
    return SquareMoments._make(state[len(FIELDS) :])


@dataclass(frozen=True)
class Kept(Partial):
    """The number of kept tuples."""

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
    """Estimates of the number of tuples that count, the mean of a column over them, and its squared deviations."""

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
        """Merge moments; the variances of both sides are moved to the common mean."""
        one, other = _moments(left), _moments(right)
        count, mean = one.count + other.count, np.where(one.count == 0, other.mean, one.mean)
        with np.errstate(all="ignore"):
            distance, share = _distance(one, other)
            differ = distance != 0
            mean = mean + np.where(differ, distance * share, 0.0)
            mean = _with_infinite_means(mean, one.count * one.mean + other.count * other.mean, count)
            between = np.where(differ, distance * distance * one.count * share, 0.0)
            covariance, variance = _moved(one, -distance * share)
            other_covariance, other_variance = _moved(other, distance * (1 - share))
            return Moments(
                count=count,
                mean=mean,
                squares=one.squares + other.squares + between,
                kept=one.kept + other.kept,
                count_variance=one.count_variance + other.count_variance,
                covariance=covariance + other_covariance,
                variance=variance + other_variance,
                certainty=one.certainty + other.certainty,
            )

    def reduce(self, state: State, runs: Runs) -> State:
        """Merge a whole run at once, with the same result."""
        state, runs = runs.gathered(state)
        moments = _moments(state)
        with np.errstate(all="ignore"):
            shift, mean, count = _shifts(moments, runs)
            squares = moments.squares + np.where(shift == 0, 0.0, moments.count * shift * shift)
            deviations, kept = runs.sums(squares), runs.sums(moments.kept)
            if any_true(moments.count_variance) or any_true(moments.covariance):
                moved = (moments.count_variance, *_moved(moments, shift))
                count_variance, covariance, variance = (runs.sums(column) for column in moved)
            else:  # the count is exact, so the point from which distances are measured makes no difference
                count_variance = covariance = np.zeros(len(count))
                variance = runs.sums(moments.variance)
            certainty = runs.sums(moments.certainty)
            return Moments(count, mean, deviations, kept, count_variance, covariance, variance, certainty)


@dataclass(frozen=True)
class WeighedSquares(Weighed):
    """Adds the variance of the squared deviations, which takes their covariances and the fourth moments."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*FIELDS, *OF_SQUARES)

    def lift(self, rows: Rows) -> State:
        with np.errstate(all="ignore"):
            kept = StratumMoments.of(rows, self.column, self.where)
            return (*_stratum(rows.strata, kept), *_squares(rows.strata, kept))

    def combine(self, left: State, right: State) -> State:
        one, other = _moments(left), _moments(right)
        with np.errstate(all="ignore"):
            distance, share = _distance(one, other)
            moved = _squares_moved(one, _square_moments(left), -distance * share)
            other_moved = _squares_moved(other, _square_moments(right), distance * (1 - share))
            return (*super().combine(left, right), *(a + b for a, b in zip(moved, other_moved, strict=True)))

    def reduce(self, state: State, runs: Runs) -> State:
        state, runs = runs.gathered(state)
        with np.errstate(all="ignore"):
            moments = _moments(state)
            moved = _squares_moved(moments, _square_moments(state), _shifts(moments, runs)[0])
            return (*super().reduce(state, runs), *(runs.sums(column) for column in moved))


@dataclass(frozen=True)
class StratumMoments:
    """The moments of the kept tuples of every stratum."""

    groups: Int64Array
    """The stratum of each tuple that counts."""
    deviation: Float64Array
    """The distance of each tuple that counts from the mean of its stratum."""
    kept: Float64Array
    """Kept tuples."""
    counting: Float64Array
    """Kept tuples that count; the mean and the squares are theirs."""
    mean: Float64Array
    squares: Float64Array

    @classmethod
    def of(cls, rows: Rows, column: str | None, where: str | None) -> StratumMoments:
        numbers = np.zeros(len(rows.groups))  # values that are not numbers are only counted
        if column is not None and values.is_numeric(rows.array(column).type):
            numbers = rows.numbers(column)
        groups, numbers = rows.select(() if column is None else (column,), where, numbers)
        size = rows.group_count
        counting = np.bincount(groups, minlength=size).astype(np.float64)
        # Measured from one of the values, so that equal values have no distance from their mean.
        origin = np.zeros(size)
        origin[groups] = numbers
        origin = np.where(np.isfinite(origin), origin, 0.0)
        deviation = numbers - origin[groups]
        shift = sums(groups, deviation, size) / np.maximum(counting, 1)
        deviation, mean = deviation - shift[groups], origin + shift
        kept = np.bincount(rows.groups, minlength=size).astype(np.float64)
        return cls(groups, deviation, kept, counting, mean, sums(groups, deviation**2, size))

    @property
    def zeros(self) -> Float64Array:
        return np.zeros(len(self.kept))

    def moment(self, power: int) -> Float64Array:
        return sums(self.groups, self.deviation**power, len(self.kept))

    def weight(self, strata: Strata) -> Float64Array | float:
        """The number of tuples that each kept one represents."""
        return strata.received / np.maximum(self.kept, 1) if strata.probability is None else 1 / strata.probability

    def spread(self, strata: Strata) -> Float64Array:
        """The factor of the squares within a stratum that gives the variance of its total."""
        if strata.probability is not None:
            return np.full(len(self.kept), (1 - strata.probability) / strata.probability**2)
        weight = strata.received / np.maximum(self.kept, 1)
        degrees = np.maximum(self.kept - 1, 1)
        return np.where(self.kept < strata.received, strata.received * (weight - 1) / degrees, 0.0)


def _stratum(strata: Strata | None, kept: StratumMoments) -> Moments:
    zeros, counting = kept.zeros, kept.counting
    if strata is None:  # nothing was shed
        return Moments(counting, kept.mean, kept.squares, counting, zeros, zeros, zeros, zeros)
    weight, spread = kept.weight(strata), kept.spread(strata)
    count, variance = counting * weight, spread * kept.squares
    if strata.probability is not None:
        squares = kept.squares * weight
        return Moments(count, kept.mean, squares, counting, spread * counting, zeros, variance, zeros)
    count_variance = spread * counting * (1 - counting / np.maximum(kept.kept, 1))
    # Unbiased: the deviations within the stratum, less what merging adds because the mean is only an estimate.
    scaled = np.where(counting > 1, (count - 1) / np.maximum(counting - 1, 1) * kept.squares, 0.0)
    deviations = scaled - variance / np.maximum(count, 1)
    certainty = variance**2 / np.maximum(kept.kept - 1, 1)
    return Moments(count, kept.mean, deviations, counting, count_variance, zeros, variance, certainty)


def _squares(strata: Strata | None, kept: StratumMoments) -> SquareMoments:
    if strata is None:
        return SquareMoments(kept.zeros, kept.zeros, kept.zeros, kept.counting)
    size, spread, cubes, fourth = np.maximum(kept.kept, 1), kept.spread(strata), kept.moment(3), kept.moment(4)
    weights = kept.counting * kept.weight(strata) ** 2
    if strata.probability is not None:
        return SquareMoments(spread * kept.squares, spread * cubes, spread * fourth, weights)
    count_covariance = spread * (kept.squares * (1 - kept.counting / size))
    squares_variance = spread * np.maximum(fourth - kept.squares**2 / size, 0.0)
    return SquareMoments(count_covariance, spread * cubes, squares_variance, weights)


def _distance(left: Moments, right: Moments) -> tuple[Float64Array, Float64Array]:
    """The distance between the means of both sides, 0 if one has none, and the right side's share of the tuples."""
    count = left.count + right.count
    both = (left.count > 0) & (right.count > 0)
    return np.where(both, right.mean - left.mean, 0.0), right.count / np.where(count > 0, count, 1)


def _shifts(moments: Moments, runs: Runs) -> tuple[Float64Array, Float64Array, Float64Array]:
    """The distance of each mean from the mean of its run; the mean of each run, and its count.

    Means are measured from the first one of their run, so that equal means stay equal.
    """
    count, mean = moments.count, moments.mean
    present, total = count > 0, runs.sums(count)
    if all_true(present) and all_true(np.isfinite(mean)):
        origin = mean[runs.starts]
        distance = mean - runs.repeated(origin)
        shift = runs.sums(distance * count) / total
        return distance - runs.repeated(shift), origin + shift, total
    first = runs.least(np.where(present, np.arange(len(mean)), len(mean)))
    origin = np.append(mean, 0.0)[first]
    origins = runs.repeated(origin)
    distance = np.where(present & (mean != origins), mean - origins, 0.0)  # equal infinities have no distance
    shift = runs.sums(distance * count) / np.where(total > 0, total, 1.0)
    common = _with_infinite_means(origin + shift, runs.sums(count * mean), total)
    return np.where(present, distance - runs.repeated(shift), 0.0), common, total


def _with_infinite_means(mean: Float64Array, total: Float64Array, count: Float64Array) -> Float64Array:
    """The mean, computed from the sum of the values where one of them is infinite and has no distance from others."""
    infinite = ~np.isfinite(mean)
    return np.where(infinite, total / np.where(count > 0, count, 1.0), mean) if any_true(infinite) else mean


def _moved(moments: Moments, shift: Float64Array) -> tuple[Float64Array, Float64Array]:
    """The covariance and the variance of the sum of distances, if the point they are measured from moves."""
    count_variance, covariance = moments.count_variance, moments.covariance
    still = shift == 0
    moved = np.where(still, 0.0, 2 * shift * covariance + shift * shift * count_variance)
    return covariance + np.where(still, 0.0, shift * count_variance), moments.variance + moved


def _squares_moved(moments: Moments, squares: SquareMoments, shift: Float64Array) -> SquareMoments:
    """The same for the sum of squares: each distance d becomes d + shift, each square d² + 2·shift·d + shift²."""
    count_variance, covariance, variance = moments.count_variance, moments.covariance, moments.variance
    count_covariance, sum_covariance, _, _ = squares
    still = shift == 0

    def plus(old: Float64Array, change: Float64Array) -> Float64Array:
        return old + np.where(still, 0.0, change)

    return SquareMoments(
        count_covariance=plus(count_covariance, 2 * shift * covariance + shift**2 * count_variance),
        sum_covariance=plus(
            sum_covariance,
            shift * (2 * variance + count_covariance) + 3 * shift**2 * covariance + shift**3 * count_variance,
        ),
        squares_variance=plus(
            squares.squares_variance,
            4 * shift * sum_covariance
            + shift**2 * (2 * count_covariance + 4 * variance)
            + 4 * shift**3 * covariance
            + shift**4 * count_variance,
        ),
        weights=squares.weights,
    )
