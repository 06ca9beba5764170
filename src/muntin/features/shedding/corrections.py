"""Corrections of totals, stratum by stratum, where tuples were shed by concept.

Most groups are rare and lose no tuples. So a pane's ordinary partials cover the kept tuples of all strata, and only
strata that lost tuples need a correction: if every kept tuple represents `w` tuples, totals miss `w - 1` times their
value over the kept ones. Corrections are partials with leaves of their own; a window without such leaves is exact.

The variances of totals add up over strata, too (Cochran, *Sampling Techniques*, chapters 5 and 5A). If the count is
uncertain, the variance of the sum of all distances from a point depends on that point. It is a parabola: its lowest
point, its height there and its steepness, which is the variance of the count. The sum of parabolas is a parabola.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from muntin.arrays import Float64Array, Runs, State, any_true
from muntin.features.shedding.weighed import Estimates, Kept, StratumMoments, Weighed
from muntin.partials.partial import Count, Field, FloatSum, IntegerSum, Partial, as_numbers
from muntin.partials.rows import Rows


class Corrected(NamedTuple):
    """The fields of `Correction`."""

    missing: Float64Array
    """Shed tuples that count."""
    missing_sum: Float64Array
    """The sum over them."""
    lowest: Float64Array
    """The lowest point of the parabola."""
    height: Float64Array
    """Its height there."""
    rise: Float64Array
    """Its steepness."""
    certainty: Float64Array
    """The term from which Satterthwaite's degrees of freedom are computed."""


@dataclass(frozen=True)
class Missing(Kept):
    """The number of tuples that were shed."""

    of_incomplete: ClassVar[bool] = True

    def lift(self, rows: Rows) -> State:
        assert rows.strata is not None, "where nothing was shed, nothing is missing"
        (kept,) = super().lift(rows)
        return (rows.strata.received.astype(np.int64) - kept,)


@dataclass(frozen=True)
class Correction(Partial):
    """What the shed tuples add to the count and to the sum of a column, with the variances of both."""

    column: str | None
    of_incomplete: ClassVar[bool] = True

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field("float64") for _ in Corrected._fields)

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def lift(self, rows: Rows) -> State:
        assert rows.strata is not None, "only strata of which tuples were shed have something to correct"
        with np.errstate(all="ignore"):
            kept = StratumMoments.of(rows, self.column, self.where)
            missing = (rows.strata.received / kept.kept - 1) * kept.counting
            spread = kept.spread(rows.strata)
            variance, rise = spread * kept.squares, spread * kept.counting * (1 - kept.counting / kept.kept)
            certainty = variance**2 / np.maximum(kept.kept - 1, 1)
            return Corrected(missing, missing * kept.mean, kept.mean, variance, rise, certainty)

    def combine(self, left: State, right: State) -> State:
        one, other = Corrected._make(left), Corrected._make(right)
        with np.errstate(all="ignore"):
            rise = one.rise + other.rise
            share = other.rise / np.where(rise > 0, rise, 1.0)
            distance = np.where((one.rise > 0) & (other.rise > 0), other.lowest - one.lowest, 0.0)
            return Corrected(
                missing=one.missing + other.missing,
                missing_sum=one.missing_sum + other.missing_sum,
                lowest=np.where(one.rise > 0, one.lowest, other.lowest) + distance * share,
                height=one.height + other.height + distance * distance * one.rise * share,
                rise=rise,
                certainty=one.certainty + other.certainty,
            )

    def reduce(self, state: State, runs: Runs) -> State:
        """Combine a whole run at once, with the same result."""
        count, total, lowest, height, rise, certainty = Corrected._make(state)
        with np.errstate(all="ignore"):
            if not any_true(rise):  # the count is certain: the parabolas are flat
                flat = np.zeros(len(runs.starts))
                count, total, height, certainty = runs.sums_of(count, total, height, certainty)
                return Corrected(count, total, flat, height, flat, certainty)
            (lowest, height, rise), gathered = runs.gathered((lowest, height, rise))
            rises = gathered.sums(rise)
            point = gathered.sums(np.where(rise > 0, rise * lowest, 0.0)) / np.where(rises > 0, rises, 1.0)
            above = np.where(rise > 0, rise * (lowest - gathered.repeated(point)) ** 2, 0.0)
            heights = gathered.sums(height + above)
            return Corrected(runs.sums(count), runs.sums(total), point, heights, rises, runs.sums(certainty))


def partials(weighed: Weighed, aggregate_partials: Sequence[Partial] = ()) -> tuple[Partial, ...]:
    """The partials from which totals are estimated: the correction, and what it corrects.

    `aggregate_partials` are those of the aggregate itself; if it is a sum, the first of them is the sum. An aggregate
    that needs only the count passes none.
    """
    where, column = weighed.where, weighed.column
    corrected: list[Partial] = [Correction(where, column), Count(where, column)]
    if aggregate_partials and column is not None:
        is_sum = type(aggregate_partials[0]) in (FloatSum, IntegerSum)  # decimals have other units
        corrected.append(aggregate_partials[0] if is_sum else FloatSum(where, column))
    return tuple(corrected)


def estimates(states: Sequence[State]) -> Estimates:
    """The estimates of windows from the states of these partials, in the fields of `Weighed`, with the sum as well."""
    correction, (kept,), *sums = states
    missing, missing_sum, lowest, height, rise, certainty = Corrected._make(correction)
    count = kept + missing
    with np.errstate(all="ignore"):
        total = as_numbers(sums[0]) + missing_sum if sums else np.zeros(len(count))
        mean = total / np.maximum(count, 1.0)
        fields = {"count": count, "mean": mean, "sum": total, "kept": kept, "certainty": certainty, "spread": certainty}
        if not any_true(rise):
            return fields | {"count_variance": rise, "covariance": rise, "variance": height}
        distance = np.where(rise > 0, lowest - mean, 0.0)
        return fields | {
            "count_variance": rise,
            "covariance": rise * distance,
            "variance": height + rise * distance**2,
        }
