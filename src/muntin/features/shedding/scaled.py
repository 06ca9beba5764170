"""Aggregates computed from kept tuples, scaled back to all tuples, with intervals where these are certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from muntin.arrays import State
from muntin.features.shedding import corrections
from muntin.features.shedding.corrections import Totals
from muntin.features.shedding.weighed import WeighedMoments
from muntin.partials.partial import Partial
from muntin.partials.values import is_numeric
from muntin.statistics.estimators import Interval

Kind = Literal["count", "sum", "mean", "variance", "deviation", "least", "greatest", "as it is"]


@dataclass(frozen=True)
class Measure:
    """What an aggregate measures: a column, over the tuples that count."""

    where: str | None
    column: str | None


@dataclass(frozen=True)
class Scaled:
    """How an aggregate is scaled back, and from which estimates."""

    kind: Kind
    measure: Measure | None = None
    """What is estimated; None if the answer over the kept tuples is not scaled."""
    sample: bool = False
    """Whether a variance is the unbiased one."""
    counted: bool = False
    """Whether all tuples count, so that even the answer over the kept tuples is the number of all."""
    partners: Measure | None = None
    """In a join, the partners that multiply each tuple, if they do."""

    @property
    def is_known(self) -> bool:
        """Whether no estimate is needed, as for the number of tuples: groups are counted before they are shed."""
        return self.kind == "count" and self.counted

    def partials(self, aggregate_partials: Sequence[Partial]) -> tuple[Partial, ...]:
        """The partials from which it is estimated; `aggregate_partials` are those of the aggregate itself."""
        assert self.measure is not None
        where, column = self.measure.where, self.measure.column
        if self.kind in ("variance", "deviation"):
            assert column is not None
            return (WeighedMoments(where, column),)
        own = corrections.partials(where, column, () if self.kind == "count" else aggregate_partials)
        if self.partners is not None:
            own += corrections.partials(self.partners.where, self.partners.column)
        return own

    def interval(self, known: pa.Array, states: Sequence[State] | None, confidence: float) -> Interval | None:
        """The answers and their bounds, for windows that lost tuples; `known` are the answers over the kept tuples.

        `states` are those of the partials. None if nothing is scaled and the error is unknown.
        """
        if states is None:
            return None if self.kind == "as it is" else _one_sided(known, self.kind)
        if self.kind in ("variance", "deviation"):
            return self.dispersion(states[0])
        own = states
        if self.partners is not None:
            own, of_partners = states[:-2], states[-2:]
        interval = self._own(Totals.of(own), confidence)
        return interval if self.partners is None else interval.scaled(Totals.of(of_partners).count)

    def _own(self, totals: Totals, confidence: float) -> Interval:
        if self.kind == "count":
            return Interval(totals.count, totals.count, totals.count)
        return totals.mean(confidence) if self.kind == "mean" else totals.sum(confidence)

    def dispersion(self, moments: State) -> Interval:
        """The variance or the standard deviation, without bounds: those of squares are too wide to tell anything."""
        count, _, squares = moments
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees = count - 1 if self.sample else count
            value = np.where(degrees > 0, np.maximum(squares, 0.0) / degrees, np.nan)
        value = np.sqrt(value) if self.kind == "deviation" else value
        unknown = np.full(len(value), np.nan)
        return Interval(value, unknown, unknown)


def _one_sided(known: pa.Array, kind: Kind) -> Interval | None:
    """The bound of an extreme: the least of the kept tuples is not below the least of all."""
    if not is_numeric(known.type):
        return None
    value = np.asarray(known.cast(pa.float64()).fill_null(np.nan))
    unknown = np.full(len(value), np.nan)
    return Interval(value, unknown, value) if kind == "least" else Interval(value, value, unknown)
