"""Corrections of sums, stratum by stratum, where aggregates are computed from kept tuples.

A stratum is a group of a pane as one task saw it. Most groups are rare and lose no tuples. So a pane's ordinary
partials cover the kept tuples of all strata, and only strata that lost tuples need a correction. Corrections are
partials with leaves of their own; a window without such leaves is exact.

The task that sheds sees every tuple first. So it knows of every stratum how many tuples count, and their range, mean
and variance, and no interval has to guess these from the kept tuples: see `statistics.bounded`. A stratum of which no
tuple that counts was kept is between its size times its least and its size times its greatest value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from muntin.arrays import Float64Array, Runs, State
from muntin.features.shedding.known import Known, numbers_of
from muntin.partials.groups import sums
from muntin.partials.partial import Count, Field, FloatSum, IntegerSum, Partial, as_numbers
from muntin.partials.rows import Rows
from muntin.statistics.bounded import half_width, stratum
from muntin.statistics.estimators import Interval

ROUNDING = 1e-12
"""Sums of doubles are rounded by less than this share of the sum of their magnitudes."""

Corrections: TypeAlias = Mapping[str, Float64Array]


class Corrected(NamedTuple):
    """The fields of `BoundedCorrection`, over the tuples that count."""

    missing: Float64Array
    """Shed tuples."""
    missing_sum: Float64Array
    """The estimate of the sum over them, without the strata of which none was kept."""
    unseen: Float64Array
    """The tuples of strata of which none was kept."""
    unseen_low: Float64Array
    """The least possible sum over them."""
    unseen_high: Float64Array
    """The greatest possible one."""
    low: Float64Array
    """The least possible sum over the other shed tuples."""
    high: Float64Array
    """The greatest possible one."""
    variance: Float64Array
    squared_ranges: Float64Array
    exact_variance: Float64Array
    magnitude: Float64Array
    """No less than the sum of all magnitudes, by which sums are rounded."""
    reach: Float64Array


@dataclass(frozen=True)
class Missing(Partial):
    """The number of tuples that were shed."""

    of_incomplete: ClassVar[bool] = True

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("int64"),)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def lift(self, rows: Rows) -> State:
        assert rows.strata is not None, "where nothing was shed, nothing is missing"
        return (rows.strata.received.astype(np.int64) - np.bincount(rows.groups, minlength=rows.group_count),)

    def combine(self, left: State, right: State) -> State:
        return (left[0] + right[0],)

    def reduce(self, state: State, runs: Runs) -> State:
        return (runs.sums(state[0]),)


@dataclass(frozen=True)
class Surplus(Missing):
    """By how many tuples the weights of the kept ones exceed the number of tuples.

    Nothing by concept. Tuples that are kept uniformly represent equally many, so those of a pane may represent more
    or fewer than it has.
    """

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("float64"),)

    def lift(self, rows: Rows) -> State:
        assert rows.strata is not None, "where nothing was shed, nothing is missing"
        weights = sums(rows.groups, rows.strata.weights(rows.groups), rows.group_count)
        return (weights - rows.strata.received,)


@dataclass(frozen=True)
class BoundedCorrection(Partial):
    """What the shed tuples add to the count and to the sum of a column, and how far that may be off."""

    column: str | None
    of_incomplete: ClassVar[bool] = True

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field("float64") for _ in Corrected._fields)

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def lift(self, rows: Rows) -> State:
        assert rows.received is not None, "all tuples are seen before any is shed"
        with np.errstate(all="ignore"):
            count, low, high, mean, squares = Known.of(rows.received, self.where, self.column)
            groups, numbers = rows.select(self.inputs, self.where, numbers_of(rows, self.column))
            kept = np.bincount(groups, minlength=rows.group_count).astype(np.float64)
            total = sums(groups, numbers, rows.group_count)
            missing = count - kept
            is_unseen, is_seen = (kept == 0) & (count > 0), (kept > 0) & (missing > 0)
            variance, reach, squared_ranges, exact_variance = stratum(count, kept, low, high, mean, squares)
            return Corrected(
                missing=missing,
                missing_sum=np.where(is_seen, missing / np.maximum(kept, 1) * total, 0.0),
                unseen=np.where(is_unseen, count, 0.0),
                unseen_low=np.where(is_unseen, count * low, 0.0),
                unseen_high=np.where(is_unseen, count * high, 0.0),
                low=np.where(is_seen, missing * low, 0.0),
                high=np.where(is_seen, missing * high, 0.0),
                variance=variance,
                squared_ranges=squared_ranges,
                exact_variance=exact_variance,
                magnitude=np.where(missing > 0, count * np.maximum(np.abs(low), np.abs(high)), 0.0),
                reach=reach,
            )

    def combine(self, left: State, right: State) -> State:
        *added, reach = zip(left, right, strict=True)
        with np.errstate(all="ignore"):
            return (*(one + other for one, other in added), np.maximum(*reach))

    def reduce(self, state: State, runs: Runs) -> State:
        """Combine a whole run at once, with the same result."""
        *added, reach = state
        with np.errstate(all="ignore"):
            return (*(runs.sums(column) for column in added), runs.greatest(reach))


def partials(where: str | None, column: str | None, aggregate_partials: Sequence[Partial] = ()) -> tuple[Partial, ...]:
    """The partials from which totals are estimated: the correction, and what it corrects.

    `aggregate_partials` are those of the aggregate itself; if it is a sum, the first of them is the sum. An aggregate
    that needs only the count passes none.
    """
    corrected: list[Partial] = [BoundedCorrection(where, column), Count(where, column)]
    if aggregate_partials and column is not None:
        is_sum = type(aggregate_partials[0]) in (FloatSum, IntegerSum)  # decimals have other units
        corrected.append(aggregate_partials[0] if is_sum else FloatSum(where, column))
    return tuple(corrected)


@dataclass(frozen=True)
class Totals:
    """The states of these partials for some windows."""

    corrected: Corrected
    kept: Float64Array
    """Kept tuples that count."""
    kept_sum: Float64Array
    """Their sum."""

    @classmethod
    def of(cls, states: Sequence[State]) -> Totals:
        correction, (kept,), *totals = states
        kept = kept.astype(np.float64)
        return cls(Corrected._make(correction), kept, as_numbers(totals[0]) if totals else np.zeros(len(kept)))

    @property
    def count(self) -> Float64Array:
        """The number of tuples that count. It is known: tuples are counted before they are shed."""
        return self.kept + self.corrected.missing

    def sum(self, confidence: float) -> Interval:
        """The sum; its bounds are NaN where none are known, and the value, too, where no tuple that counts was kept."""
        of = self.corrected
        with np.errstate(all="ignore"):
            seen = self.kept_sum + of.missing_sum
            mean_of_seen = seen / (self.count - of.unseen)
            unseen = np.where(of.unseen > 0, np.clip(of.unseen * mean_of_seen, of.unseen_low, of.unseen_high), 0.0)
            value = np.where((self.kept > 0) | (self.count == 0), seen + unseen, np.nan)
            half = half_width(of.variance, of.reach, of.squared_ranges, of.exact_variance, confidence)
            rounding = ROUNDING * of.magnitude
            low = np.maximum(seen - half, self.kept_sum + of.low) + of.unseen_low - rounding
            high = np.minimum(seen + half, self.kept_sum + of.high) + of.unseen_high + rounding
            unknown = ~(np.isfinite(value) & np.isfinite(low) & np.isfinite(high))
        return Interval(value, np.where(unknown, np.nan, low), np.where(unknown, np.nan, high))

    def mean(self, confidence: float) -> Interval:
        with np.errstate(all="ignore"):
            return self.sum(confidence).scaled(1 / self.count)
