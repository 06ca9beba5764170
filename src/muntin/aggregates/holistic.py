"""The holistic aggregates: functions of all values of a window, so panes keep the tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from muntin.aggregates.aggregate import Aggregate, Bound, Dictionaries, OfColumn, Types, Where, type_of
from muntin.arrays import State
from muntin.checks import whole_number
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, Given, check_given, shown
from muntin.holistic.collected import Collected
from muntin.holistic.distinct import DistinctCount
from muntin.holistic.frequent import Mode, TopK
from muntin.holistic.function import HolisticFunction
from muntin.holistic.quantiles import Quantiles
from muntin.partials import values
from muntin.type_names import spark_name

MOST = (1 << 31) - 1
"""The most values in a list."""


def _bound(aggregate: Aggregate, function: HolisticFunction, result: pa.DataType) -> Bound:
    return Bound((), result, _not_lowered, function, aggregate.as_bound, function.where)


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
            raise MuntinError(
                f"a quantile needs numbers, but column {shown(self.column)!r} is of type {spark_name(kind)}; "
                "cast it first."
            )
        quantiles = Quantiles(self.column, where, self.probabilities, self.as_list)
        result = pa.list_(pa.float64()) if self.as_list else pa.float64()
        return _bound(self, quantiles, result)


@dataclass(frozen=True, eq=False, repr=False)
class ModeAggregate(OfColumn):
    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "mode", {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        return _bound(self, Mode(self.column, where), _orderable(self.column, types))


@dataclass(frozen=True, eq=False, repr=False)
class CountDistinctAggregate(OfColumn):
    others: tuple[Given, ...] = ()
    """The other columns, where distinct combinations of several columns are counted."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for column in self.others:
            check_given(column, "column")

    @property
    def columns(self) -> tuple[Given, ...]:
        return (self.column, *self.others)

    def reading(self, names: Sequence[str]) -> Aggregate:
        column, *others = names
        return replace(self, column=column, others=tuple(others))

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "count_distinct", {"columns": list(self.columns)} if self.others else {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        for column in self.columns:
            _orderable(column, types)
        return _bound(self, DistinctCount(self.column, where, self.others), pa.int64())


@dataclass(frozen=True, eq=False, repr=False)
class CollectAggregate(OfColumn):
    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "collect", {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        return _bound(self, Collected(self.column, where), pa.list_(type_of(self.column, types)))


@dataclass(frozen=True, eq=False, repr=False)
class TopKAggregate(OfColumn):
    k: int

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "top_k", {"column": self.column, "k": self.k}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        item = _orderable(self.column, types)
        result = pa.list_(pa.struct([("item", item), ("count", pa.int64())]))
        return _bound(self, TopK(self.column, where, self.k), result)


def _orderable(column: str, types: Types) -> pa.DataType:
    kind = type_of(column, types)
    values.check_orderable(kind, f"column {shown(column)!r}")
    return kind


def median(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The exact median, as Spark's `median`: the mean of the two middle values if the count is even.

    Examples
    --------
    >>> of_hour(A.median("fare"))
    7.25
    """
    return QuantileAggregate(where, column, (0.5,), as_list=False)


def quantile(column: ColumnLike, probability: float | Sequence[float], *, where: Where = None) -> Aggregate:
    """Exact quantiles, as Spark's `percentile`: one number, or a list for several probabilities.

    Examples
    --------
    >>> of_hour(A.quantile("fare", 0.9))
    8.75
    >>> of_hour(A.quantile("fare", [0.25, 0.75]))
    [6.5, 8.0]
    """
    several = not isinstance(probability, int | float)
    probabilities = tuple(probability) if isinstance(probability, Sequence) else (probability,)
    if not probabilities or isinstance(probability, str | bytes):
        raise MuntinError(f"probability must be a number from 0 to 1, or several of them, got {probability!r}.")
    for number in probabilities:
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
            raise MuntinError(f"probability must be a number from 0 to 1, such as 0.95, got {number!r}.")
    return QuantileAggregate(where, column, tuple(float(number) for number in probabilities), several)


def mode(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The most frequent value; ties go to the smallest.

    Examples
    --------
    >>> of_hour(A.mode("fare"))
    6.5
    """
    return ModeAggregate(where, column)


def count_distinct(column: ColumnLike, *others: ColumnLike, where: Where = None) -> Aggregate:
    """The number of distinct values, without nulls.

    With several columns, the number of distinct combinations. Tuples with a null in any of them are skipped, as in
    Spark's `count_distinct`.

    Examples
    --------
    >>> of_hour(A.count_distinct("route"))
    2
    >>> of_hour(A.count_distinct("route", "fare"))
    4
    """
    return CountDistinctAggregate(where, column, others)


def collect(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """A list of all values in time order, without nulls, as Spark's `collect_list`.

    Examples
    --------
    >>> of_hour(A.collect("fare"))
    [5.0, 8.0, 6.5, 8.0, 9.5, 6.5]
    """
    return CollectAggregate(where, column)


def top_k(column: ColumnLike, k: int, *, where: Where = None) -> Aggregate:
    """The k most frequent values and their counts: a list of (`item`, `count`), the most frequent first.

    Examples
    --------
    >>> of_hour(A.top_k("route", 1))
    [{'item': 'A', 'count': 4}]
    """
    return TopKAggregate(where, column, whole_number(k, "k", MOST))
