"""The holistic aggregates: each is a function of all the values of a window, which are therefore kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from muntin.aggregates import values
from muntin.aggregates.aggregate import Aggregate, Bound, Dictionaries, OfColumn, Types, Where, type_of
from muntin.aggregates.decomposable import counted
from muntin.arrays import State
from muntin.checks import whole_number
from muntin.errors import MuntinError
from muntin.sampling.estimated import COUNT, DistinctEstimator, Estimator, FrequencyEstimator, QuantileEstimator
from muntin.whole.collected import Collected
from muntin.whole.distinct import DistinctCount
from muntin.whole.frequent import Mode, TopK
from muntin.whole.function import Whole
from muntin.whole.quantiles import Quantiles

MOST = (1 << 31) - 1
"""Values in a list."""


def _bound(whole: Whole, result: pa.DataType, estimator: Estimator | None = None) -> Bound:
    return Bound((), result, _not_lowered, whole, estimator)


def _count(whole: Whole) -> tuple[tuple[str, Bound], ...]:
    """How many values of the window count, which its panes know."""
    return ((COUNT, counted(whole.column, whole.where)),)


def _not_lowered(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    raise AssertionError("a holistic aggregate has no partials to answer from")


@dataclass(frozen=True, eq=False, repr=False)
class QuantileAggregate(OfColumn):
    probabilities: tuple[float, ...]
    as_list: bool

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        if self.probabilities == (0.5,) and not self.as_list:
            return "median", {"column": self.column}
        return "quantile", {
            "column": self.column,
            "probability": self.probabilities if self.as_list else self.probabilities[0],
        }

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        kind = type_of(self.column, types)
        if not values.is_numeric(kind):
            raise MuntinError(f"a quantile needs numbers, but column {self.column!r} is of type {kind}; cast it first.")
        whole = Quantiles(self.column, where, self.probabilities, self.as_list)
        result = pa.list_(pa.float64()) if self.as_list else pa.float64()
        return _bound(whole, result, QuantileEstimator(_count(whole), whole))


@dataclass(frozen=True, eq=False, repr=False)
class ModeAggregate(OfColumn):
    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "mode", {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        mode = Mode(self.column, where)
        estimator = FrequencyEstimator(_count(mode), mode, 1, as_list=False)
        return _bound(mode, _orderable(self.column, types), estimator)


@dataclass(frozen=True, eq=False, repr=False)
class CountDistinctAggregate(OfColumn):
    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "count_distinct", {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        _orderable(self.column, types)
        distinct = DistinctCount(self.column, where)
        return _bound(distinct, pa.int64(), DistinctEstimator(_count(distinct), distinct))


@dataclass(frozen=True, eq=False, repr=False)
class CollectAggregate(OfColumn):
    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "collect", {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        return _bound(Collected(self.column, where), pa.list_(type_of(self.column, types)))


@dataclass(frozen=True, eq=False, repr=False)
class TopKAggregate(OfColumn):
    k: int

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "top_k", {"column": self.column, "k": self.k}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        item = _orderable(self.column, types)
        result = pa.list_(pa.struct([("item", item), ("count", pa.int64())]))
        most = TopK(self.column, where, self.k)
        return _bound(most, result, FrequencyEstimator(_count(most), most, self.k, as_list=True))


def _orderable(column: str, types: Types) -> pa.DataType:
    kind = type_of(column, types)
    values.check_orderable(kind, f"column {column!r}")
    return kind


def median(column: str, *, where: Where = None) -> Aggregate:
    """The exact median, as Spark's `median`: between two values in the middle, their mean."""
    return QuantileAggregate(where, column, (0.5,), as_list=False)


def quantile(column: str, probability: float | Sequence[float], *, where: Where = None) -> Aggregate:
    """Exact quantiles, as Spark's `percentile`: one number, or a list of them for several probabilities."""
    several = not isinstance(probability, int | float)
    given = tuple(probability) if isinstance(probability, Sequence) else (probability,)
    if not given or isinstance(probability, str | bytes):
        raise MuntinError(f"probability must be a number from 0 to 1, or several of them, got {probability!r}.")
    for each in given:
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each <= 1:
            raise MuntinError(f"probability must be a number from 0 to 1, such as 0.95, got {each!r}.")
    return QuantileAggregate(where, column, tuple(float(each) for each in given), several)


def mode(column: str, *, where: Where = None) -> Aggregate:
    """The most frequent value; the least of them if several are as frequent."""
    return ModeAggregate(where, column)


def count_distinct(column: str, *, where: Where = None) -> Aggregate:
    """How many different values there are, nulls left out."""
    return CountDistinctAggregate(where, column)


def collect(column: str, *, where: Where = None) -> Aggregate:
    """All values in time order, as a list; nulls are left out, as in Spark's `collect_list`."""
    return CollectAggregate(where, column)


def top_k(column: str, k: int, *, where: Where = None) -> Aggregate:
    """The k most frequent values with their counts, most frequent first: a list of (`item`, `count`)."""
    return TopKAggregate(where, column, whole_number(k, "k", MOST))
