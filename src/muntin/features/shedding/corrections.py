"""What kept tuples do not say: to be added to it, stratum by stratum, where tuples were shed by concept.

Most groups are rare, and of those nothing is shed. So what is kept of all strata is a pane's ordinary partials, and
only the others have something to correct: of a stratum in which every kept tuple stands for `w`, totals miss `w - 1`
times what was kept. These are partials with leaves of their own, and a window without such leaves is exact.

How far off totals may be adds up from stratum to stratum, too (Cochran, *Sampling Techniques*, chapters 5 and 5A). The
variance of the sum of all distances from a point depends on that point if it is not certain how many tuples count. It
is a parabola then, and kept as one: by its lowest point, how high that is, and how steeply it rises, which is the
variance of the count. Parabolas add up to a parabola.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.arrays import Runs, State, any_true
from muntin.features.shedding.weighed import Estimates, Kept, Weighed, StratumMoments
from muntin.partials.partial import Count, Field, FloatSum, IntegerSum, Partial, as_numbers
from muntin.partials.rows import Rows


@dataclass(frozen=True)
class Missing(Kept):
    """How many tuples were shed."""

    of_incomplete: ClassVar[bool] = True

    def lift(self, rows: Rows) -> State:
        assert rows.strata is not None, "where nothing was shed, nothing is missing"
        (kept,) = super().lift(rows)
        return (rows.strata.received.astype(np.int64) - kept,)


@dataclass(frozen=True)
class Correction(Partial):
    """What the number of tuples that count and the sum of a column over them miss, and how far off they may be then.

    The fields: both of these; the parabola, with its lowest point, its height there and how steeply it rises; and
    what Satterthwaite's degrees of freedom are made of.
    """

    column: str | None
    of_incomplete: ClassVar[bool] = True

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field("float64") for _ in range(6))

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def lift(self, rows: Rows) -> State:
        assert rows.strata is not None, "only strata of which tuples were shed have something to correct"
        with np.errstate(all="ignore"):
            of = StratumMoments.of(rows, self.column, self.where)
            count = (rows.strata.received / of.kept - 1) * of.counting
            spread = of.spread(rows.strata)
            variance, rise = spread * of.squares, spread * of.counting * (1 - of.counting / of.kept)
            return (count, count * of.mean, of.mean, variance, rise, variance**2 / np.maximum(of.kept - 1, 1))

    def combine(self, left: State, right: State) -> State:
        with np.errstate(all="ignore"):
            rise = left[4] + right[4]
            share = right[4] / np.where(rise > 0, rise, 1.0)
            apart = np.where((left[4] > 0) & (right[4] > 0), right[2] - left[2], 0.0)
            lowest = np.where(left[4] > 0, left[2], right[2]) + apart * share
            height = left[3] + right[3] + apart * apart * left[4] * share
            return (left[0] + right[0], left[1] + right[1], lowest, height, rise, left[5] + right[5])

    def reduce(self, state: State, runs: Runs) -> State:
        """All of a run at once, which comes to the same."""
        count, total, lowest, height, rise, certainty = state
        with np.errstate(all="ignore"):
            if not any_true(rise):  # it is certain how many tuples count: the parabolas are flat
                flat = np.zeros(len(runs.starts))
                count, total, height, certainty = runs.sums_of(count, total, height, certainty)
                return (count, total, flat, height, flat, certainty)
            (lowest, height, rise), gathered = runs.gathered((lowest, height, rise))
            rises = gathered.sums(rise)
            point = gathered.sums(np.where(rise > 0, rise * lowest, 0.0)) / np.where(rises > 0, rises, 1.0)
            above = np.where(rise > 0, rise * (lowest - gathered.repeated(point)) ** 2, 0.0)
            heights = gathered.sums(height + above)
            return (runs.sums(count), runs.sums(total), point, heights, rises, runs.sums(certainty))


def partials(weighed: Weighed, own: Sequence[Partial] = ()) -> tuple[Partial, ...]:
    """What estimates of totals are made of: the correction, and what it corrects.

    Of the `own` partials of the aggregate, a sum is the first, if it is one of a sum. Where nothing but the number of
    tuples is asked for, there are none.
    """
    where, column = weighed.where, weighed.column
    corrected: list[Partial] = [Correction(where, column), Count(where, column)]
    if own and column is not None:
        known = type(own[0]) in (FloatSum, IntegerSum)  # decimals have other units
        corrected.append(own[0] if known else FloatSum(where, column))
    return tuple(corrected)


def estimates(states: Sequence[State]) -> Estimates:
    """Of windows, from the states of these partials, in the fields of `Weighed`; and the sum, which is known first."""
    (missing, missing_sum, lowest, height, rise, certainty), (kept,), *sums = states
    count = kept + missing
    with np.errstate(all="ignore"):
        total = as_numbers(sums[0]) + missing_sum if sums else np.zeros(len(count))
        mean = total / np.maximum(count, 1.0)
        found = {"count": count, "mean": mean, "sum": total, "kept": kept, "certainty": certainty, "spread": certainty}
        if not any_true(rise):
            return found | {"count_variance": rise, "covariance": rise, "variance": height}
        away = np.where(rise > 0, lowest - mean, 0.0)
        return found | {"count_variance": rise, "covariance": rise * away, "variance": height + rise * away**2}
