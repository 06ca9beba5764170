"""The decomposable aggregates: they answer a window from the partials of its panes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from muntin.aggregates import decimals
from muntin.aggregates.aggregate import (
    Aggregate,
    Bound,
    Dictionaries,
    OfColumn,
    Types,
    Where,
    overflow,
    type_of,
)
from muntin.arrays import Int64Array, State, all_true
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, Given, check_given, shown
from muntin.partials import values
from muntin.partials.least import Least, LeastCount, Place
from muntin.partials.partial import Count, FloatSum, IntegerSum, Moments, Partial, as_numbers
from muntin.type_names import spark_name


@dataclass(frozen=True, eq=False, repr=False)
class CountAggregate(Aggregate):
    column: Given | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.column is not None:
            check_given(self.column, "column")

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "count", {"column": self.column}

    @property
    def columns(self) -> tuple[Given, ...]:
        return () if self.column is None else (self.column,)

    def reading(self, names: Sequence[str]) -> Aggregate:
        return replace(self, column=names[0]) if names else self

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        if self.column is not None:
            type_of(self.column, types)
        return Bound((Count(where, self.column),), pa.int64(), _lower_count, aggregate=self.as_bound, where=where)


def _lower_count(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((count,),) = states
    return pa.array(count)


@dataclass(frozen=True, eq=False, repr=False)
class SumAggregate(OfColumn):
    kind: pa.DataType | None = None
    """The type of the column, once it is bound."""

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "sum", {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        total = _total(self.column, types, where, "sum")
        kind, result, lower = types[self.column], pa.float64(), _lower_float_sum
        if values.is_integer(kind):
            result, lower = pa.int64(), partial(_lower_integer_sum, self.column)
        elif pa.types.is_decimal(kind):
            result = decimals.sum_type(kind)
            lower = partial(decimals.lower_sum, self.column, result)
        aggregate = replace(self, where=None, kind=kind)
        return Bound((total, Count(where, self.column)), result, lower, aggregate=aggregate, where=where)


def mean_of_moments(column: str, where: str | None) -> Bound:
    """The mean of a column, from the partial of its variance."""
    return Bound((Moments(where, column),), pa.float64(), _lower_moments_mean)


def variance_of_moments(column: str, where: str | None) -> Bound:
    """The population variance of a column."""
    return Bound((Moments(where, column),), pa.float64(), partial(_lower_variance, False, False))


def extreme_of(column: str, kind: pa.DataType, where: str | None, greatest: bool = False) -> Bound:
    """The least or the greatest value of a column."""
    place = _place(column, kind, inverted=greatest)
    return Bound((Least(where, (place,)),), kind, partial(_lower_least, kind, place))


def counted(column: str, where: str | None) -> Bound:
    """The number of values of a column that count."""
    return Bound((Count(where, column),), pa.int64(), _lower_count)


def _lower_moments_mean(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((count, mean, _),) = states
    return values.masked(mean, count == 0)


def _total(column: str, types: Types, where: str | None, aggregate: str) -> Partial:
    kind = type_of(column, types)
    if not values.is_numeric(kind):
        raise MuntinError(
            f"{aggregate} needs a number, but column {shown(column)!r} is of type {spark_name(kind)}; cast it first."
        )
    if pa.types.is_decimal(kind):
        return decimals.decimal_sum(where, column, kind)
    return IntegerSum(where, column) if values.is_integer(kind) else FloatSum(where, column)


def _lower_integer_sum(column: str, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    (high, low), (count,) = states
    half = 1 << 31
    if np.any((high < -half) | (high >= half)):
        raise overflow(f"sum of column {shown(column)!r}", pa.int64())
    return values.masked((high << 32) + low, count == 0)


def _lower_float_sum(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    (total,), (count,) = states
    return values.masked(total, count == 0)


@dataclass(frozen=True, eq=False, repr=False)
class MeanAggregate(OfColumn):
    kind: pa.DataType | None = None
    """The type of the column, once it is bound."""

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "mean", {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        total, result, lower = _total(self.column, types, where, "mean"), pa.float64(), _lower_mean
        kind = types[self.column]
        if pa.types.is_decimal(kind):
            result = decimals.mean_type(kind)
            lower = partial(decimals.lower_mean, self.column, result, result.scale - kind.scale)
        aggregate = replace(self, where=None, kind=kind)
        return Bound((total, Count(where, self.column)), result, lower, aggregate=aggregate, where=where)


def _lower_mean(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    total, (count,) = states
    summed = as_numbers(total)
    if all_true(count):
        return pa.array(summed / count)
    return values.masked(summed / np.maximum(count, 1), count == 0)


@dataclass(frozen=True, eq=False, repr=False)
class VarianceAggregate(OfColumn):
    sample: bool
    root: bool
    kind: pa.DataType | None = None
    """The type of the column, once it is bound."""

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return self._name, {"column": self.column}

    @property
    def _name(self) -> str:
        return ("stddev" if self.root else "var") + ("_samp" if self.sample else "_pop")

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        kind = type_of(self.column, types)
        if not values.is_numeric(kind):
            raise MuntinError(
                f"{self._name} needs a number, but column {shown(self.column)!r} is of type {spark_name(kind)}; "
                "cast it first."
            )
        lower = partial(_lower_variance, self.sample, self.root)
        aggregate = replace(self, where=None, kind=kind)
        return Bound((Moments(where, self.column),), pa.float64(), lower, aggregate=aggregate, where=where)


def _lower_variance(sample: bool, root: bool, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((count, _, squares),) = states
    degrees = count - 1 if sample else count
    variance = squares / np.maximum(degrees, 1)
    return values.masked(np.sqrt(variance) if root else variance, degrees <= 0)


Extreme = Literal["min", "max", "first", "last"]


@dataclass(frozen=True, eq=False, repr=False)
class ExtremeAggregate(OfColumn):
    extreme: Extreme

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return self.extreme, {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        kind = type_of(self.column, types)
        place = _place(self.column, kind, inverted=self.extreme in ("max", "last"))
        moment = Place(None, inverted=place.inverted)
        places = (place,) if self.extreme in ("min", "max") else (moment, place)
        lower = partial(_lower_least, kind, place)
        return Bound((Least(where, places),), kind, lower, aggregate=self.as_bound, where=where)


def _place(column: str, kind: pa.DataType, inverted: bool = False) -> Place:
    values.check_orderable(kind, f"column {shown(column)!r}")
    return Place(column, inverted=inverted, ranked=values.is_ranked(kind))


def _lower_least(kind: pa.DataType, place: Place, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    """The value in the last place of the least tuple."""
    ((absent, *places),) = states
    keys: Int64Array = ~places[-1] if place.inverted else places[-1]
    dictionary = dictionaries[place.column] if place.ranked and place.column is not None else None
    return values.from_order_keys(keys, kind, dictionary, absent == 1)


def _lower_nullable(kind: pa.DataType, place: Place, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    """The same, where the place before the last marks nulls."""
    ((absent, *places),) = states
    return _lower_least(kind, place, (((absent | places[-2]), *places),), dictionaries)


@dataclass(frozen=True, eq=False, repr=False)
class ArgAggregate(Aggregate):
    column: Given | None
    by: Given
    greatest: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        check_given(self.by, "by")
        if self.column is not None:
            check_given(self.column, "column")

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        named = {"column": self.by} if self.column is None else {"column": self.column, "by": self.by}
        return "argmax" if self.greatest else "argmin", named

    @property
    def columns(self) -> tuple[Given, ...]:
        return (self.by,) if self.column is None else (self.column, self.by)

    def reading(self, names: Sequence[str]) -> Aggregate:
        return replace(self, column=None if self.column is None else names[0], by=names[-1])

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        by = _place(self.by, type_of(self.by, types), inverted=self.greatest)
        earliest = Place(None)
        if self.column is None:
            return Bound((Least(where, (by, earliest)),), time, partial(_lower_least, time, earliest))
        kind = type_of(self.column, types)
        place = _place(self.column, kind)
        places = (by, earliest, Place(self.column, nullness=True), place)
        return Bound((Least(where, places),), kind, partial(_lower_nullable, kind, place))


@dataclass(frozen=True, eq=False, repr=False)
class ExtremeCountAggregate(OfColumn):
    greatest: bool

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        return "max_count" if self.greatest else "min_count", {"column": self.column}

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        place = _place(self.column, type_of(self.column, types), inverted=self.greatest)
        return Bound((LeastCount(where, place),), pa.int64(), _lower_extreme_count)


def _lower_extreme_count(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((_, count),) = states
    return pa.array(count)


def count(column: ColumnLike | None = None, *, where: Where = None) -> Aggregate:
    """The number of tuples; with a column, the number of those in which it is not null.

    Examples
    --------
    >>> of_hour(A.count())
    7
    >>> of_hour(A.count("fare"))
    6
    >>> of_hour(A.count(where="fare > 6"))
    5
    """
    return CountAggregate(where, column)


def sum(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The sum: a long for integers, ten more digits for decimals (overflow is an error in both), else a double.

    Examples
    --------
    >>> of_hour(A.sum("fare"))
    43.5
    >>> of_hour(A.sum("km", where="route = 'A'"))
    443
    """
    return SumAggregate(where, column)


def min(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The smallest value; NaN counts as the largest, as in Spark.

    Examples
    --------
    >>> of_hour(A.min("fare"))
    5.0
    """
    return ExtremeAggregate(where, column, "min")


def max(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The largest value; NaN counts as the largest, as in Spark.

    Examples
    --------
    >>> of_hour(A.max("fare"))
    9.5
    >>> of_hour(A.max("route"))
    'B'
    """
    return ExtremeAggregate(where, column, "max")


def mean(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The mean: a decimal with four more decimal places for decimals, as in Spark, else a double.

    Examples
    --------
    >>> of_hour(A.mean("fare"))
    7.25
    """
    return MeanAggregate(where, column)


def var_pop(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The population variance.

    Examples
    --------
    >>> of_hour(A.var_pop("fare"))
    2.0625
    """
    return VarianceAggregate(where, column, sample=False, root=False)


def var_samp(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The unbiased sample variance; null for a single value, as in Spark.

    Examples
    --------
    >>> round(of_hour(A.var_samp("fare")), 3)
    2.475
    """
    return VarianceAggregate(where, column, sample=True, root=False)


def stddev_pop(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The square root of the population variance.

    Examples
    --------
    >>> round(of_hour(A.stddev_pop("km")), 3)
    10.842
    """
    return VarianceAggregate(where, column, sample=False, root=True)


def stddev_samp(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The square root of the sample variance; null for a single value, as in Spark.

    Examples
    --------
    >>> round(of_hour(A.stddev_samp("km")), 3)
    11.711
    """
    return VarianceAggregate(where, column, sample=True, root=True)


def first(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The value with the earliest event time; the smallest if there are several.

    Examples
    --------
    >>> of_hour(A.first("route"))
    'A'
    """
    return ExtremeAggregate(where, column, "first")


def last(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The value with the latest event time; the largest if there are several.

    Examples
    --------
    >>> of_hour(A.last("fare"))
    6.5
    """
    return ExtremeAggregate(where, column, "last")


def argmin(column: ColumnLike, by: ColumnLike | None = None, *, where: Where = None) -> Aggregate:
    """`column` where `by` is smallest, as Spark's `min_by`; with a single column, the event time of its minimum.

    Rows with a null `by` are skipped; a null `column` can be the answer. Ties in `by` go to the earliest tuple, then to
    the smallest `column`, nulls last.

    Examples
    --------
    >>> of_hour(A.argmin("route", "fare"))
    'A'
    >>> of_hour(A.argmin("fare"))
    datetime.datetime(2024, 5, 1, 12, 2, tzinfo=zoneinfo.ZoneInfo(key='UTC'))
    """
    return _arg(column, by, where, greatest=False)


def argmax(column: ColumnLike, by: ColumnLike | None = None, *, where: Where = None) -> Aggregate:
    """`column` where `by` is largest, as Spark's `max_by`; with a single column, the event time of its maximum.

    Rows with a null `by` are skipped; a null `column` can be the answer. Ties in `by` go to the earliest tuple, then to
    the smallest `column`, nulls last.

    Examples
    --------
    >>> of_hour(A.argmax("route", "fare"))
    'A'
    """
    return _arg(column, by, where, greatest=True)


def _arg(column: ColumnLike, by: ColumnLike | None, where: Where, greatest: bool) -> Aggregate:
    return ArgAggregate(where, None, column, greatest) if by is None else ArgAggregate(where, column, by, greatest)


def max_count(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The number of tuples with the largest value.

    Examples
    --------
    >>> of_hour(A.max_count("route"))
    3
    """
    return ExtremeCountAggregate(where, column, greatest=True)


def min_count(column: ColumnLike, *, where: Where = None) -> Aggregate:
    """The number of tuples with the smallest value.

    Examples
    --------
    >>> of_hour(A.min_count("fare"))
    1
    """
    return ExtremeCountAggregate(where, column, greatest=False)
