"""Aggregates over a join that need no pairs.

Within a window and a key every left tuple meets every right one. So over the pairs, each value of a left column occurs
as often as there are right tuples, its *partners*: a count and a sum are multiplied by their number, and a mean, an
extreme or a mode is that of the left tuples alone. Panes keep both numbers, and the tree combines them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.aggregates import decimals
from muntin.aggregates.aggregate import Aggregate, Bound, Dictionaries, Lower, Types, overflow
from muntin.aggregates.custom import CustomAggregate
from muntin.aggregates.decomposable import (
    ArgAggregate,
    CountAggregate,
    ExtremeAggregate,
    ExtremeCountAggregate,
    MeanAggregate,
    SumAggregate,
    VarianceAggregate,
)
from muntin.aggregates.holistic import CollectAggregate
from muntin.arrays import Int64Array, State
from muntin.expressions import shown
from muntin.holistic.contents import Held
from muntin.holistic.frequent import TopK
from muntin.holistic.function import Whole, spread
from muntin.holistic.quantiles import Quantiles
from muntin.joins.names import MARKS
from muntin.partials.partial import Count

if TYPE_CHECKING:
    from muntin.features.shedding.scaled import Scaled


def why_not(aggregate: Aggregate) -> str | None:
    """Why an aggregate of one side's columns needs the pairs; None if it does not."""
    if isinstance(aggregate, ArgAggregate) or (
        isinstance(aggregate, ExtremeAggregate) and aggregate.extreme in ("first", "last")
    ):
        return "it goes by the time of a pair, which is the later one of its two tuples'"
    if isinstance(aggregate, CollectAggregate):
        return "it lists a value for every pair"
    if isinstance(aggregate, CustomAggregate):
        return "nothing is known of a custom function that would make multiplying right"
    return None


def how(aggregate: Aggregate) -> str:
    """In words, what multiplying is for an aggregate."""
    if isinstance(aggregate, CountAggregate | SumAggregate | ExtremeCountAggregate):
        return "that of one side, times the number of partners"
    if isinstance(aggregate, VarianceAggregate) and aggregate.sample:
        return "that of one side, with every tuple counted once for each partner"
    return "that of one side's tuples, where they have partners"


def multiplied(aggregate: Aggregate, types: Types, where: str, partners: str, time: pa.DataType) -> Bound:
    """The aggregate over pairs: of the tuples of one side, which `where` marks, each once for all its `partners`."""
    inner = aggregate.bind(types, where, time)
    if inner.whole is not None:
        repeated = Repeated(inner.whole.column, inner.whole.where, inner.whole, partners)
        return replace(inner, whole=repeated, aggregate=None)
    lower = partial(_lowered(aggregate, inner.result), inner.lower)
    partials = (*inner.partials, Count(partners, None))
    return Bound(partials, inner.result, lower, aggregate=Multiplied(aggregate.as_bound, partners), where=where)


@dataclass(frozen=True)
class Multiplied:
    """An aggregate of one side's tuples, each of which counts once for all of its partners."""

    aggregate: Aggregate
    partners: str

    def scaled(self, bound: Bound) -> Scaled | None:
        """Where tuples of both sides are shed. Each side's are strata of their own, so that how many are of a side is
        known; how many of those fulfil a condition is an estimate.
        """
        from muntin.features.shedding.registry import scaled_of
        from muntin.features.shedding.scaled import Scaled
        from muntin.features.shedding.weighed import Weighed

        aggregate, partners, where = self.aggregate, self.partners, bound.where
        inner = scaled_of(aggregate, bound)
        if inner is None:
            return None
        if isinstance(aggregate, VarianceAggregate):
            return replace(inner, sample=False)  # of very many pairs: one more or less does not matter
        if not isinstance(aggregate, CountAggregate | SumAggregate):
            return inner
        sides = MARKS.values()
        all_count = isinstance(aggregate, CountAggregate) and aggregate.column is None and where in sides
        return replace(
            inner, counted=all_count, partners=Scaled("count", Weighed(partners, None), counted=partners in sides)
        )


def _lowered(aggregate: Aggregate, result: pa.DataType) -> partial[pa.Array]:
    if isinstance(aggregate, SumAggregate):
        if pa.types.is_decimal(result):
            return partial(_lower_decimal_sum, aggregate.column, result)
        return partial(_lower_sum, aggregate.column)
    if isinstance(aggregate, CountAggregate | ExtremeCountAggregate):
        return partial(_lower_count)
    if isinstance(aggregate, VarianceAggregate) and aggregate.sample:
        return partial(_lower_sample)
    assert isinstance(aggregate, MeanAggregate | ExtremeAggregate | VarianceAggregate)
    return partial(_lower_alike)


def _lower_count(inner: Lower, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    *own, (partners,) = states
    return _product(inner(own, dictionaries), partners, "a count over the pairs")


def _lower_sum(column: str, inner: Lower, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    # Where there is no partner there is no sum, and one that would overflow is of no concern.
    own, partners, windows = _with_partners(states)
    total = inner(own, dictionaries)
    if pa.types.is_floating(total.type):
        times = pa.array(partners[windows].astype(np.float64))
        return spread(pc.multiply(total, times), windows, len(partners))
    return spread(_product(total, partners[windows], f"sum of column {shown(column)!r}"), windows, len(partners))


def _lower_decimal_sum(
    column: str, kind: pa.Decimal128Type, inner: Lower, states: Sequence[State], dictionaries: Dictionaries
) -> pa.Array:
    own, partners, windows = _with_partners(states)
    times = decimals.lower_sum(column, kind, own, dictionaries, partners[windows])
    return spread(times, windows, len(partners))


def _lower_sample(inner: Lower, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    (count, mean, squares), (partners,) = states
    with np.errstate(invalid="ignore"):  # infinite squares of no pairs, which count for nothing
        return inner([(count * partners, mean, squares * partners)], dictionaries)


def _lower_alike(inner: Lower, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    own, partners, windows = _with_partners(states)
    return spread(inner(own, dictionaries), windows, len(partners))


def _with_partners(states: Sequence[State]) -> tuple[list[State], Int64Array, Int64Array]:
    """The states of the windows in which there are partners, the numbers of all, and which windows those are."""
    *own, (partners,) = states
    windows = np.flatnonzero(partners)
    return [tuple(column[windows] for column in state) for state in own], partners, windows


def _product(numbers: pa.Array, times: Int64Array, what: str) -> pa.Array:
    try:
        return pc.multiply_checked(numbers, pa.array(times))
    except pa.ArrowInvalid as error:
        raise overflow(what, pa.int64()) from error


@dataclass(frozen=True)
class Repeated(Whole):
    """A holistic aggregate of one side's column, where every tuple occurs once for each of its partners."""

    inner: Whole
    partners: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.inner.inputs, self.partners)

    def compute(self, held: Held) -> pa.Array:
        times = held.matching((), self.partners)
        if isinstance(self.inner, Quantiles):
            return self.inner.repeated(held, times)
        windows = np.flatnonzero(times)
        if len(windows) == len(times):
            return self._times(self.inner.compute(held), times)
        some = Held(held.tuples, held.begin[windows], held.end[windows], held.one_per_key)
        none = Held(held.tuples, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), held.one_per_key)
        found = pa.concat_arrays([self._times(self.inner.compute(some), times[windows]), self.inner.compute(none)])
        where = np.full(len(times), len(windows))
        where[windows] = np.arange(len(windows))
        return found.take(pa.array(where))

    def _times(self, found: pa.Array, times: Int64Array) -> pa.Array:
        if not isinstance(self.inner, TopK):
            return found  # the same values, as often as each other
        item, count = found.values.flatten()
        more = _product(count, np.repeat(times, np.diff(found.offsets)), f"top_k of column {shown(self.column)!r}")
        return pa.ListArray.from_arrays(
            found.offsets, pa.StructArray.from_arrays([item, more], names=["item", "count"])
        )
