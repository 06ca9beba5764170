"""Aggregates of windows from which tuples were shed, scaled back to all tuples, with intervals."""

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
    """Whether a variance is the unbiased one."""
    counted: bool = False
    """Whether all tuples of a stratum count. Then the count is known, because strata are counted before they are shed;
    in a join, the count of each side, if tuples are drawn by their groups."""
    partners: Scaled | None = None
    """In a join, how the number of partners that multiplies each tuple is scaled, if it is."""

    @property
    def is_known(self) -> bool:
        """Whether no estimate is needed, as for the number of tuples: groups are counted before they are shed."""
        return self.kind == "count" and self.counted and self.partners is None

    def partials(self, is_uniform: bool, aggregate_partials: Sequence[Partial]) -> tuple[Partial, ...]:
        """The partials from which it is estimated; `aggregate_partials` are those of the aggregate itself."""
        assert self.weighed is not None
        if self._is_corrected(is_uniform):
            return corrections.partials(self.weighed, () if self.kind == "count" else aggregate_partials)
        return (self.weighed,)

    def estimates(self, states: Sequence[State], is_uniform: bool) -> Estimates:
        """The estimates, from the states of these partials."""
        assert self.weighed is not None
        if self._is_corrected(is_uniform):
            return corrections.estimates(states)
        return dict(zip(self.weighed.names, states[0], strict=True))

    def _is_corrected(self, is_uniform: bool) -> bool:
        """Whether it is a total over strata, most of which are complete. Squared deviations are not sums of totals."""
        return not is_uniform and self.kind in ("count", "sum", "mean")

    def interval(
        self, known: pa.Array, estimates: Estimates | None, windows: ShedSizes, partners: Estimates | None = None
    ) -> Interval | None:
        """The answers and their bounds, for windows that lost tuples; `known` are the answers over the kept tuples.

        None if nothing is scaled and the error is unknown.
        """
        if estimates is None:
            return None if self.kind == "as it is" else _one_sided(known, self.kind)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # infinities and empty windows
            interval = self._own(windows.calibrated(estimates), windows)
            if self.partners is not None and partners is not None:
                interval = _times(interval, self.partners._own(windows.calibrated(partners), windows))
        return interval

    def _own(self, estimates: Estimates, windows: ShedSizes) -> Interval:
        if self.kind == "count":
            if self.counted and not windows.is_uniform:
                return Interval(estimates["count"], estimates["count"], estimates["count"])
            return _count(estimates, windows)
        if self.kind == "mean":
            return _around(
                estimates["mean"], estimates["variance"] / _at_least_one(estimates["count"]) ** 2, estimates, windows
            )
        if self.kind == "sum":
            mean = estimates["mean"]
            scatter = estimates["variance"] + 2 * mean * estimates["covariance"] + mean**2 * estimates["count_variance"]
            return _around(estimates.get("sum", estimates["count"] * mean), scatter, estimates, windows)
        return variance(estimates, self.sample, self.kind == "deviation", windows.confidence)


@dataclass(frozen=True)
class ShedSizes:
    """Windows from which tuples were shed."""

    kept: Int64Array
    """The number of kept tuples."""
    size: Float64Array
    """The number of tuples with the shed ones."""
    is_uniform: bool
    confidence: float
    represented: Estimates | None = None
    """After uniform shedding: the number of tuples that the kept ones represent, with its variance."""

    @classmethod
    def of(
        cls, estimates: WindowEstimates, shed: Int64Array, is_uniform: bool, represented: Estimates | None = None
    ) -> ShedSizes:
        return cls(
            estimates.sampled[shed],
            estimates.size[shed].astype(np.float64),
            is_uniform,
            estimates.confidence,
            represented,
        )

    def calibrated(self, estimates: Estimates) -> Estimates:
        """The estimates, scaled to the known number of tuples if the kept ones represent another number.

        So the share of tuples that count is what is estimated (a ratio: Cochran, chapter 6), with its variances.
        """
        if self.represented is None:
            return estimates
        total, uncertain = self.represented["count"], self.represented["count_variance"]
        factor, share = self.size / total, estimates["count"] / total
        calibrated = {name: values * factor**2 for name, values in estimates.items() if name not in _NOT_SQUARED}
        calibrated |= {
            "count": estimates["count"] * factor,
            "mean": estimates["mean"],
            "squares": estimates["squares"] * factor,
        }
        share_variance = estimates["count_variance"] * (1 - 2 * share) + share**2 * uncertain
        calibrated |= {"kept": estimates["kept"], "count_variance": np.maximum(share_variance, 0.0) * factor**2}
        for name in ("covariance", "count_covariance"):
            if name in calibrated:
                calibrated[name] = calibrated[name] * (1 - share)
        return calibrated | {"certainty": estimates["certainty"]}

    def take(self, positions: Int64Array) -> ShedSizes:
        return replace(self, kept=self.kept[positions], size=self.size[positions])


_NOT_SQUARED = ("count", "mean", "squares", "kept", "count_variance", "certainty")


def _times(one: Interval, other: Interval) -> Interval:
    """The product of two independent estimates (Goodman, 1960)."""
    value = one.value * other.value
    sides = []
    for side in ("low", "high"):
        error, other_error = (np.abs(getattr(interval, side) - interval.value) for interval in (one, other))
        half = np.sqrt((error * other.value) ** 2 + (other_error * one.value) ** 2 + (error * other_error) ** 2)
        sides.append(value - half if side == "low" else value + half)
    return Interval(value, sides[0], sides[1])


def _at_least_one(count: Float64Array) -> Float64Array:
    return np.maximum(count, 1.0)


def _around(value: Float64Array, scatter: Float64Array, estimates: Estimates, windows: ShedSizes) -> Interval:
    """Student's t, with Satterthwaite's degrees of freedom where strata differ."""
    kept, certainty = estimates["kept"], estimates["certainty"]
    degrees = np.minimum(estimates["variance"] ** 2 / certainty, kept)
    if not all_true(certainty):
        degrees = np.where(certainty > 0, degrees, kept - 1)
    half = deviates(degrees, windows.confidence) * np.sqrt(np.maximum(scatter, 0.0))
    # A single tuple, equal tuples and an infinite estimate give no error.
    unknown = (kept < 2) | (estimates.get("spread", estimates["variance"]) == 0) | ~np.isfinite(value)
    if any_true(unknown):
        half = np.where(unknown & (windows.kept < windows.size), np.nan, half)
        value = np.where(estimates["count"] == 0, np.nan, value)
    return Interval.around(value, half)


def _count(estimates: Estimates, windows: ShedSizes) -> Interval:
    """The known size times the share of tuples that count.

    The share has the interval of Clopper and Pearson, with the effective size of an unstratified sample (Korn and
    Graubard, 1998).
    """
    value = np.where(windows.kept > 0, estimates["count"], np.nan)
    share = np.clip(value / _at_least_one(windows.size), 0.0, 1.0)
    effective_size = share * (1 - share) * windows.size**2 / estimates["count_variance"]
    kept = np.where(estimates["count_variance"] > 0, effective_size, windows.kept)
    shares = estimators.share(share * kept, kept, windows.confidence)
    low, high = (np.where(windows.kept > 0, side * windows.size, np.nan) for side in (shares.low, shares.high))
    return Interval(value, low, high)


def _one_sided(known: pa.Array, kind: Kind) -> Interval | None:
    """The bound of an extreme: the least of the kept tuples is not below the least of all."""
    if not is_numeric(known.type):
        return None
    value = np.asarray(known.cast(pa.float64()).fill_null(np.nan))
    unknown = np.full(len(value), np.nan)
    return Interval(value, unknown, value) if kind == "least" else Interval(value, value, unknown)
