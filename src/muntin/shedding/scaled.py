"""What each aggregate says of a window of which tuples were shed, scaled back to all of them, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
from scipy.special import gammaincinv

from muntin.aggregates.partial import Partial
from muntin.aggregates.values import is_numeric
from muntin.arrays import Float64Array, Int64Array, State, all_true, any_true
from muntin.sampling import estimators
from muntin.sampling.estimators import Interval
from muntin.sampling.quality import Told
from muntin.sampling.student import deviates
from muntin.shedding import corrections
from muntin.shedding.variances import variance
from muntin.shedding.weighed import Estimates, Weighed

Kind = Literal["count", "sum", "mean", "variance", "deviation", "least", "greatest", "as it is"]


@dataclass(frozen=True)
class Scaled:
    """How an aggregate is scaled back, and from which estimates."""

    kind: Kind
    weighed: Weighed | None = None
    sample: bool = False
    """Of variances: whether it is the unbiased one."""
    counted: bool = False
    """Whether tuples count by their stratum alone, so that concept-driven shedding knows how many there are."""
    partners: Scaled | None = None
    """Over a join: how the number of partners is scaled that every tuple is counted for, if it is."""

    def is_known(self, by_chance: bool) -> bool:
        """Whether it needs no estimate: the number of tuples, where groups are counted before they are shed."""
        return self.kind == "count" and self.counted and self.partners is None and not by_chance

    def partials(self, by_chance: bool, own: Sequence[Partial]) -> tuple[Partial, ...]:
        """What estimates are made of; `own` are those of the aggregate itself."""
        assert self.weighed is not None
        if self._is_corrected(by_chance):
            return corrections.partials(self.weighed, () if self.kind == "count" else own)
        return (self.weighed,)

    def estimates(self, states: Sequence[State], by_chance: bool) -> Estimates:
        """The same, from the states of these partials."""
        assert self.weighed is not None
        if self._is_corrected(by_chance):
            return corrections.estimates(states)
        return dict(zip(self.weighed.names, states[0], strict=True))

    def _is_corrected(self, by_chance: bool) -> bool:
        """Whether it is a total, and most strata are complete. Squared deviations do not add up from totals."""
        return not by_chance and self.kind in ("count", "sum", "mean")

    def interval(
        self, known: pa.Array, estimates: Estimates | None, asked: Asked, partners: Estimates | None = None
    ) -> Interval | None:
        """The answers, and between what the truth is; `known` is what the kept tuples say as they are.

        All is of windows of which something was shed. None where nothing is to be scaled and nothing can be said of the
        error.
        """
        if estimates is None:
            return None if self.kind == "as it is" else _one_sided(known, self.kind)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of infinities, and of nothing at all
            own = self._own(estimates, asked)
            if self.partners is not None and partners is not None:
                own = _times(own, self.partners._own(partners, asked))
        return own

    def _own(self, of: Estimates, asked: Asked) -> Interval:
        if self.kind == "count":
            if self.counted and not asked.by_chance:
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
class Asked:
    """Windows of which tuples were shed."""

    kept: Int64Array
    size: Float64Array
    """How many tuples they have, those that were shed among them."""
    by_chance: bool
    confidence: float

    @classmethod
    def of(cls, told: Told, shed: Int64Array, by_chance: bool) -> Asked:
        return cls(told.sampled[shed], told.size[shed].astype(np.float64), by_chance, told.confidence)

    def take(self, chosen: Int64Array) -> Asked:
        return replace(self, kept=self.kept[chosen], size=self.size[chosen])


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


def _around(value: Float64Array, scatter: Float64Array, of: Estimates, asked: Asked) -> Interval:
    """Student's t, with Satterthwaite's degrees of freedom where strata differ."""
    kept, certainty = of["kept"], of["certainty"]
    degrees = np.minimum(of["variance"] ** 2 / certainty, kept)
    if not all_true(certainty):
        degrees = np.where(certainty > 0, degrees, kept - 1)
    half = deviates(degrees, asked.confidence) * np.sqrt(np.maximum(scatter, 0.0))
    alone = kept < 2
    if any_true(alone):
        half = np.where(alone & (asked.kept < asked.size), np.nan, half)
        value = np.where(of["count"] == 0, np.nan, value)
    return Interval.around(value, half)


def _count(of: Estimates, asked: Asked) -> Interval:
    """Of tuples that were kept by chance, how many came is all but a Poisson number. Of strata it is exact what there
    is to draw from, and the share that counts has the interval of Clopper and Pearson, for as many tuples as would be
    as sure if they were not stratified (Korn and Graubard, 1998).
    """
    value, tail = of["count"], (1 - asked.confidence) / 2
    weight = asked.size / np.maximum(asked.kept, 1)
    if asked.by_chance:
        least = np.where(of["kept"] > 0, gammaincinv(np.maximum(of["kept"], 1), tail), 0.0)
        return Interval(value, least * weight, gammaincinv(of["kept"] + 1, 1 - tail) * weight)
    share = np.clip(value / _at_least_one(asked.size), 0.0, 1.0)
    as_sure = share * (1 - share) * asked.size**2 / of["count_variance"]
    kept = np.where(of["count_variance"] > 0, as_sure, asked.kept)
    found = estimators.share(share * kept, kept, asked.confidence)
    return Interval(value, found.low * asked.size, found.high * asked.size)


def _one_sided(known: pa.Array, kind: Kind) -> Interval | None:
    """The least of the kept tuples is not below the least of all: one side is known."""
    if not is_numeric(known.type):
        return None
    value = np.asarray(known.cast(pa.float64()).fill_null(np.nan))
    unknown = np.full(len(value), np.nan)
    return Interval(value, unknown, value) if kind == "least" else Interval(value, value, unknown)
