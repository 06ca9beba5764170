"""The holistic aggregates: each is a function of all the values of a window, which are therefore kept."""

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
from muntin.holistic.function import Whole
from muntin.holistic.quantiles import Quantiles
from muntin.partials import values
from muntin.type_names import spark_name

MOST = (1 << 31) - 1
"""Values in a list."""


def _bound(aggregate: Aggregate, whole: Whole, result: pa.DataType) -> Bound:
    return Bound((), result, _not_lowered, whole, aggregate.as_bound, whole.where)


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
        whole = Quantiles(self.column, where, self.probabilities, self.as_list)
        result = pa.list_(pa.float64()) if self.as_list else pa.float64()
        return _bound(self, whole, result)


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
    """The other columns, if it counts the different combinations of several."""

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
    """The exact median, as Spark's `median`: between two values in the middle, their mean."""
    return QuantileAggregate(where, column, (0.5,), as_list=False)


def quantile(column: ColumnLike, probability: float | Sequence[float], *, where: Where = None) -> Aggregate:
    """Exact quantiles, as Spark's `percentile`: one number, or a list of them for several probabilities."""
    several = not isinstance(probability, int | float)
    given = tuple(probability) if isinstance(probability, Sequence) else (probability,)
    if not given or isinstance(probability, str | bytes):
        raise MuntinError(f"probability must be a number from 0 to 1, or several of them, got {probability!r}.")
    for each in given:
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each <= 1:
            raise MuntinError(f"probability must be a number from 0 to 1, such as 0.95, got {each!r}.")
    return QuantileAggregate(where, column, tuple(float(each) for each in given), several)


def mode(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The most frequent value; the least of them if several are as frequent."""
    return ModeAggregate(where, column)


def count_distinct(column: ColumnLike, *others: ColumnLike, where: Where = None) -> Aggregate:
    """How many different values there are, nulls left out.

    Of several columns, how many different combinations; a tuple in which any of them is null does not count, as in
    Spark's `count_distinct`.
    """
    return CountDistinctAggregate(where, column, others)


def collect(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """All values in time order, as a list; nulls are left out, as in Spark's `collect_list`."""
    return CollectAggregate(where, column)


def top_k(column: ColumnLike, k: int, *, where: Where = None) -> Aggregate:
    """The k most frequent values with their counts, most frequent first: a list of (`item`, `count`)."""
    return TopKAggregate(where, column, whole_number(k, "k", MOST))
