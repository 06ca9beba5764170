"""Aggregates over a join that need no pairs.

In a window and key, every left tuple is paired with every right one, its *partners*. So each value of a left column
occurs once per right tuple: counts and sums are multiplied by the number of partners, and means, extremes and modes are
those of the left tuples alone. Panes keep the aggregate and the number of partners, and the tree combines both.
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
from muntin.holistic.contents import WindowContents
from muntin.holistic.frequent import TopK
from muntin.holistic.function import HolisticFunction, spread
from muntin.holistic.quantiles import Quantiles
from muntin.partials.partial import Count

if TYPE_CHECKING:
    from muntin.features.shedding.scaled import Scaled


def why_not(aggregate: Aggregate) -> str | None:
    """The reason why an aggregate over columns of one side needs the pairs; None if it does not."""
    if isinstance(aggregate, ArgAggregate) or (
        isinstance(aggregate, ExtremeAggregate) and aggregate.extreme in ("first", "last")
    ):
        return "it needs the time of a pair, which is the later one of its two rows"
    if isinstance(aggregate, CollectAggregate):
        return "it lists a value for every pair"
    if isinstance(aggregate, CustomAggregate):
        return "a custom function cannot be multiplied by the number of partners"
    return None


def how(aggregate: Aggregate) -> str:
    """How the aggregate follows from one side and the number of partners, for `explain()`."""
    if isinstance(aggregate, CountAggregate | SumAggregate | ExtremeCountAggregate):
        return "that of one side, times the number of partners"
    if isinstance(aggregate, VarianceAggregate) and aggregate.sample:
        return "that of one side, with every row counted once for each partner"
    return "that of the rows of one side that have partners"


def multiplied(aggregate: Aggregate, types: Types, where: str, partners: str, time: pa.DataType) -> Bound:
    """The aggregate over pairs, from the tuples of one side that `where` marks, repeated once per partner."""
    inner = aggregate.bind(types, where, time)
    if inner.holistic is not None:
        repeated = Repeated(inner.holistic.column, inner.holistic.where, inner.holistic, partners)
        return replace(inner, holistic=repeated, aggregate=None)
    lower = partial(_lowered(aggregate, inner.result), inner.lower)
    partials = (*inner.partials, Count(partners, None))
    return Bound(partials, inner.result, lower, aggregate=Multiplied(aggregate.as_bound, partners), where=where)


@dataclass(frozen=True)
class Multiplied:
    """An aggregate over the tuples of one side, each repeated once per partner."""

    aggregate: Aggregate
    partners: str

    def scaled(self, bound: Bound) -> Scaled | None:
        """The estimate if tuples of both sides are shed. The number of partners is known: they are counted before."""
        from muntin.features.shedding.registry import scaled_of
        from muntin.features.shedding.scaled import Measure

        inner = scaled_of(self.aggregate, bound)
        if inner is None:
            return None
        if isinstance(self.aggregate, VarianceAggregate):
            return replace(inner, sample=False)  # there are so many pairs that n and n - 1 hardly differ
        if not isinstance(self.aggregate, CountAggregate | SumAggregate):
            return inner
        return replace(inner, counted=False, partners=Measure(self.partners, None))


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
    *side_states, (partners,) = states
    return _product(inner(side_states, dictionaries), partners, "a count over the pairs")


def _lower_sum(column: str, inner: Lower, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    # Only windows with partners have a sum; in others an overflow must not raise.
    side_states, partners, windows = _with_partners(states)
    total = inner(side_states, dictionaries)
    if pa.types.is_floating(total.type):
        times = pa.array(partners[windows].astype(np.float64))
        return spread(pc.multiply(total, times), windows, len(partners))
    return spread(_product(total, partners[windows], f"sum of column {shown(column)!r}"), windows, len(partners))


def _lower_decimal_sum(
    column: str, kind: pa.Decimal128Type, inner: Lower, states: Sequence[State], dictionaries: Dictionaries
) -> pa.Array:
    side_states, partners, windows = _with_partners(states)
    times = decimals.lower_sum(column, kind, side_states, dictionaries, partners[windows])
    return spread(times, windows, len(partners))


def _lower_sample(inner: Lower, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    (count, mean, squares), (partners,) = states
    with np.errstate(invalid="ignore"):  # zero pairs times infinite squares is NaN, and has no weight
        return inner([(count * partners, mean, squares * partners)], dictionaries)


def _lower_alike(inner: Lower, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    side_states, partners, windows = _with_partners(states)
    return spread(inner(side_states, dictionaries), windows, len(partners))


def _with_partners(states: Sequence[State]) -> tuple[list[State], Int64Array, Int64Array]:
    """The states of the windows with partners, the number of partners of all windows, and the windows with partners."""
    *side_states, (partners,) = states
    windows = np.flatnonzero(partners)
    return [tuple(column[windows] for column in state) for state in side_states], partners, windows


def _product(numbers: pa.Array, times: Int64Array, what: str) -> pa.Array:
    try:
        return pc.multiply_checked(numbers, pa.array(times))
    except pa.ArrowInvalid as error:
        raise overflow(what, pa.int64()) from error


@dataclass(frozen=True)
class Repeated(HolisticFunction):
    """A holistic aggregate over a column of one side, each tuple repeated once per partner."""

    inner: HolisticFunction
    partners: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.inner.inputs, self.partners)

    def compute(self, contents: WindowContents) -> pa.Array:
        times = contents.matching((), self.partners)
        if isinstance(self.inner, Quantiles):
            return self.inner.repeated(contents, times)
        windows = np.flatnonzero(times)
        if len(windows) == len(times):
            return self._times(self.inner.compute(contents), times)
        with_partners = WindowContents(
            contents.tuples, contents.begin[windows], contents.end[windows], contents.one_per_key
        )
        empty = WindowContents(
            contents.tuples, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), contents.one_per_key
        )
        answers = pa.concat_arrays(
            [self._times(self.inner.compute(with_partners), times[windows]), self.inner.compute(empty)]
        )
        positions = np.full(len(times), len(windows))
        positions[windows] = np.arange(len(windows))
        return answers.take(pa.array(positions))

    def _times(self, answers: pa.Array, times: Int64Array) -> pa.Array:
        if not isinstance(self.inner, TopK):
            return answers  # repeating all tuples equally often changes nothing
        item, count = answers.values.flatten()
        multiplied_count = _product(
            count, np.repeat(times, np.diff(answers.offsets)), f"top_k of column {shown(self.column)!r}"
        )
        return pa.ListArray.from_arrays(
            answers.offsets, pa.StructArray.from_arrays([item, multiplied_count], names=["item", "count"])
        )
