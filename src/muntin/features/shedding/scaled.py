"""What each aggregate says of a window of which tuples were shed, scaled back to all of them, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array, Int64Array, State, all_true, any_true
from muntin.engine.estimates import Estimates as WindowEstimates
from muntin.features.shedding import corrections
from muntin.features.shedding.variances import variance
from muntin.features.shedding.weighed import Estimates, Weighed
from muntin.partials.partial import Partial
from muntin.partials.values import is_numeric
from muntin.statistics import estimators
from muntin.statistics.estimators import Interval
from muntin.statistics.student import deviates

Kind = Literal["count", "sum", "mean", "variance", "deviation", "least", "greatest", "as it is"]


@dataclass(frozen=True)
class Scaled:
    """How an aggregate is scaled back, and from which estimates."""

    kind: Kind
    weighed: Weighed | None = None
    sample: bool = False
    """Of variances: whether it is the unbiased one."""
    counted: bool = False
    """Whether tuples count by their stratum alone. How many there are is known then, as strata are counted before they
    are shed; of each side of a join, if they are drawn by their groups."""
    partners: Scaled | None = None
    """Over a join: how the number of partners is scaled that every tuple is counted for, if it is."""

    @property
    def is_known(self) -> bool:
        """Whether it needs no estimate: the number of tuples, as groups are counted before they are shed."""
        return self.kind == "count" and self.counted and self.partners is None

    def partials(self, is_uniform: bool, own: Sequence[Partial]) -> tuple[Partial, ...]:
        """What estimates are made of; `own` are those of the aggregate itself."""
        assert self.weighed is not None
        if self._is_corrected(is_uniform):
            return corrections.partials(self.weighed, () if self.kind == "count" else own)
        return (self.weighed,)

    def estimates(self, states: Sequence[State], is_uniform: bool) -> Estimates:
        """The same, from the states of these partials."""
        assert self.weighed is not None
        if self._is_corrected(is_uniform):
            return corrections.estimates(states)
        return dict(zip(self.weighed.names, states[0], strict=True))

    def _is_corrected(self, is_uniform: bool) -> bool:
        """Whether it is a total, and most strata are complete. Squared deviations do not add up from totals."""
        return not is_uniform and self.kind in ("count", "sum", "mean")

    def interval(
        self, known: pa.Array, estimates: Estimates | None, asked: ShedWindows, partners: Estimates | None = None
    ) -> Interval | None:
        """The answers, and between what the truth is; `known` is what the kept tuples say as they are.

        All is of windows of which something was shed. None where nothing is to be scaled and nothing can be said of the
        error.
        """
        if estimates is None:
            return None if self.kind == "as it is" else _one_sided(known, self.kind)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of infinities, and of nothing at all
            own = self._own(asked.calibrated(estimates), asked)
            if self.partners is not None and partners is not None:
                own = _times(own, self.partners._own(asked.calibrated(partners), asked))
        return own

    def _own(self, of: Estimates, asked: ShedWindows) -> Interval:
        if self.kind == "count":
            if self.counted and not asked.is_uniform:
                return Interval(of["count"], of["count"], of["count"])
            return _count(of, asked)
        if self.kind == "mean":
            return _around(of["mean"], of["variance"] / _at_least_one(of["count"]) ** 2, of, asked)
        if self.kind == "sum":
            mean = of["mean"]
            scatter = of["variance"] + 2 * mean * of["covariance"] + mean**2 * of["count_variance"]
            return _around(of.get("sum", of["count"] * mean), scatter, of, asked)
        return variance(of, self.sample, self.kind == "deviation", asked.confidence)


@dataclass(frozen=True)
class ShedWindows:
    """Windows of which tuples were shed."""

    kept: Int64Array
    size: Float64Array
    """How many tuples they have, those that were shed among them."""
    is_uniform: bool
    confidence: float
    stood_for: Estimates | None = None
    """Where tuples were kept whatever their group is: how many those stand for, and how sure that is."""

    @classmethod
    def of(
        cls, told: WindowEstimates, shed: Int64Array, is_uniform: bool, stood_for: Estimates | None = None
    ) -> ShedWindows:
        return cls(told.sampled[shed], told.size[shed].astype(np.float64), is_uniform, told.confidence, stood_for)

    def calibrated(self, of: Estimates) -> Estimates:
        """Estimates that fit the number of tuples, which is known, where the kept ones stand for another number.

        So it is the share of the tuples that count which is estimated (a ratio: Cochran, chapter 6), and the variances
        are those of the share.
        """
        if self.stood_for is None:
            return of
        stood_for, uncertain = self.stood_for["count"], self.stood_for["count_variance"]
        factor, share = self.size / stood_for, of["count"] / stood_for
        found = {name: each * factor**2 for name, each in of.items() if name not in _NOT_SQUARED}
        found |= {"count": of["count"] * factor, "mean": of["mean"], "squares": of["squares"] * factor}
        of_share = of["count_variance"] * (1 - 2 * share) + share**2 * uncertain
        found |= {"kept": of["kept"], "count_variance": np.maximum(of_share, 0.0) * factor**2}
        for name in ("covariance", "count_covariance"):
            if name in found:
                found[name] = found[name] * (1 - share)
        return found | {"certainty": of["certainty"]}

    def take(self, chosen: Int64Array) -> ShedWindows:
        return replace(self, kept=self.kept[chosen], size=self.size[chosen])


_NOT_SQUARED = ("count", "mean", "squares", "kept", "count_variance", "certainty")


def _times(one: Interval, other: Interval) -> Interval:
    """The product of two independent estimates (Goodman, 1960)."""
    value = one.value * other.value
    sides = []
    for side in ("low", "high"):
        away, others = (np.abs(getattr(each, side) - each.value) for each in (one, other))
        half = np.sqrt((away * other.value) ** 2 + (others * one.value) ** 2 + (away * others) ** 2)
        sides.append(value - half if side == "low" else value + half)
    return Interval(value, sides[0], sides[1])


def _at_least_one(count: Float64Array) -> Float64Array:
    return np.maximum(count, 1.0)


def _around(value: Float64Array, scatter: Float64Array, of: Estimates, asked: ShedWindows) -> Interval:
    """Student's t, with Satterthwaite's degrees of freedom where strata differ."""
    kept, certainty = of["kept"], of["certainty"]
    degrees = np.minimum(of["variance"] ** 2 / certainty, kept)
    if not all_true(certainty):
        degrees = np.where(certainty > 0, degrees, kept - 1)
    half = deviates(degrees, asked.confidence) * np.sqrt(np.maximum(scatter, 0.0))
    # From one tuple alone, and from tuples that are all alike, nobody can tell how far off others may be; nor around
    # what is infinite.
    unknown = (kept < 2) | (of.get("spread", of["variance"]) == 0) | ~np.isfinite(value)
    if any_true(unknown):
        half = np.where(unknown & (asked.kept < asked.size), np.nan, half)
        value = np.where(of["count"] == 0, np.nan, value)
    return Interval.around(value, half)


def _count(of: Estimates, asked: ShedWindows) -> Interval:
    """It is exact what there is to draw from, and the share that counts has the interval of Clopper and Pearson, for
    as many tuples as would be as sure if they were not stratified (Korn and Graubard, 1998).
    """
    value = np.where(asked.kept > 0, of["count"], np.nan)
    share = np.clip(value / _at_least_one(asked.size), 0.0, 1.0)
    as_sure = share * (1 - share) * asked.size**2 / of["count_variance"]
    kept = np.where(of["count_variance"] > 0, as_sure, asked.kept)
    found = estimators.share(share * kept, kept, asked.confidence)
    low, high = (np.where(asked.kept > 0, side * asked.size, np.nan) for side in (found.low, found.high))
    return Interval(value, low, high)


def _one_sided(known: pa.Array, kind: Kind) -> Interval | None:
    """The least of the kept tuples is not below the least of all: one side is known."""
    if not is_numeric(known.type):
        return None
    value = np.asarray(known.cast(pa.float64()).fill_null(np.nan))
    unknown = np.full(len(value), np.nan)
    return Interval(value, unknown, value) if kind == "least" else Interval(value, value, unknown)
