"""Partials that follow from ordinary aggregates, such as those of Spark's `groupBy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from muntin.aggregates.decimals import MOST_DIGITS, LongDecimalSum, ShortDecimalSum
from muntin.arrays import Array, Float64Array, Int64Array, State
from muntin.engine.native_order import Digit, digits_of, unpacked
from muntin.partials import values
from muntin.partials.least import Least, Place
from muntin.partials.partial import Count, FloatSum, IntegerSum, Moments, Partial, carried

Function: TypeAlias = Literal["count", "sum", "high sum", "low sum", "mean", "variance", "min", "max", "least"]
ADDED_DIGITS = 10
"""The sum of decimals has this many digits more than they have: enough for all rows of a pane."""
_MASK = (1 << 32) - 1


@dataclass(frozen=True)
class NativeAggregate:
    """An aggregate of the rows of a pane that match the filter, without those in which the column is null.

    "high sum" and "low sum" are those of the upper and of the lower 32 bits of integers; the lower ones are positive.
    "mean" and "variance", that of the population, are of numbers in double precision. NaN is the largest number.
    "least" is the least integer of some digits.
    """

    function: Function
    column: str | None = None
    """None for a count of rows, and for digits."""
    where: str | None = None
    digits: tuple[Digit, ...] = ()


@dataclass(frozen=True)
class Counterpart:
    """The aggregates that a partial follows from."""

    aggregates: tuple[NativeAggregate, ...]
    state: Callable[[Sequence[pa.Array], int], State]
    """The partials of so many panes, from the values of the aggregates; from their ranks, if they are ranked."""
    ranked: Mapping[int, str] = field(default_factory=dict)
    """The values that are ranked, by their positions: the columns in whose dictionaries."""
    unpacked: Callable[[Sequence[pa.Array], Int64Array], Sequence[pa.Array]] | None = None
    """What makes the values, from those of the aggregates and the starts of panes; None if they are the same."""

    def values(self, computed: Sequence[pa.Array], starts: Int64Array) -> list[pa.Array]:
        return list(computed if self.unpacked is None else self.unpacked(computed, starts))


PRESENT = Counterpart((), lambda columns, count: (np.ones(count, dtype=np.int64),))
"""In place of the number of rows, where nobody reads it."""


def presence(aggregate: NativeAggregate) -> Counterpart:
    """1 where an aggregate has a value, and else 0: in place of a count, where only that is read."""
    return Counterpart((aggregate,), lambda columns, count: (np.asarray(columns[0].is_valid()).astype(np.int64),))


def counterpart(partial: Partial, types: Mapping[str, pa.DataType], length: int) -> Counterpart | None:
    """The counterpart of a partial over panes of a length, if it has one; `types` are those of the columns."""
    if isinstance(partial, Least) and len(partial.places) > 1:
        return _least_of_digits(partial, types, length)
    find = _COUNTERPARTS.get(type(partial))
    return None if find is None else find(partial, types)


def _count(partial: Count, types: Mapping[str, pa.DataType]) -> Counterpart:
    def state(columns: Sequence[pa.Array], count: int) -> State:
        return (_integers(columns[0]),)

    return Counterpart((NativeAggregate("count", partial.column, partial.where),), state)


def _float_sum(partial: FloatSum, types: Mapping[str, pa.DataType]) -> Counterpart:
    def state(columns: Sequence[pa.Array], count: int) -> State:
        return (_floats(columns[0]),)

    return Counterpart((NativeAggregate("sum", partial.column, partial.where),), state)


def _integer_sum(partial: IntegerSum, types: Mapping[str, pa.DataType]) -> Counterpart:
    def of_total(columns: Sequence[pa.Array], count: int) -> State:
        total = _integers(columns[0])
        return (total >> 32, total & _MASK)

    def of_halves(columns: Sequence[pa.Array], count: int) -> State:
        return carried(_integers(columns[0]), _integers(columns[1]))

    if types[partial.column].bit_width <= 32:  # the sum of fewer than 2**31 rows fits 64 bits
        return Counterpart((NativeAggregate("sum", partial.column, partial.where),), of_total)
    high, low = (NativeAggregate(name, partial.column, partial.where) for name in ("high sum", "low sum"))
    return Counterpart((high, low), of_halves)


def _decimal_sum(partial: ShortDecimalSum | LongDecimalSum, types: Mapping[str, pa.DataType]) -> Counterpart | None:
    def state(columns: Sequence[pa.Array], count: int) -> State:
        (total,) = columns
        missing = np.asarray(total.is_null())
        low, high = (np.where(missing, 0, half) for half in values.units(total))
        digits = (high >> 32, high & _MASK, (low >> 32) & _MASK, low & _MASK)
        if len(partial.fields) == len(digits):
            return digits
        return ((high << 32) | digits[2], digits[3])  # of numbers with at most 28 digits, which are below 2**94

    if types[partial.column].precision + ADDED_DIGITS > MOST_DIGITS:
        return None
    return Counterpart((NativeAggregate("sum", partial.column, partial.where),), state)


def _moments(partial: Moments, types: Mapping[str, pa.DataType]) -> Counterpart:
    def state(columns: Sequence[pa.Array], count: int) -> State:
        size = _integers(columns[0]).astype(np.float64)
        with np.errstate(all="ignore"):
            return (size, _floats(columns[1]), _floats(columns[2]) * size)

    functions: tuple[Function, ...] = ("count", "mean", "variance")
    return Counterpart(tuple(NativeAggregate(name, partial.column, partial.where) for name in functions), state)


def _least(partial: Least, types: Mapping[str, pa.DataType]) -> Counterpart | None:
    place = partial.places[0]
    kind = None if place.column is None else types[place.column]
    if kind is None or not (values.is_fixed(kind) or pa.types.is_decimal(kind)):
        return None  # Spark would sort all rows
    aggregate = NativeAggregate("max" if place.inverted else "min", place.column, partial.where)
    return Counterpart((aggregate,), _state_of(partial.places), _ranked(partial))


def _least_of_digits(partial: Least, types: Mapping[str, pa.DataType], length: int) -> Counterpart | None:
    digits = digits_of(partial, types, length)
    if digits is None:
        return None

    def values_of(columns: Sequence[pa.Array], starts: Int64Array) -> Sequence[pa.Array]:
        return unpacked(columns[0], digits, types, starts)

    aggregate = NativeAggregate("least", None, partial.where, digits)
    return Counterpart((aggregate,), _state_of(partial.places), _ranked(partial), values_of)


def _ranked(partial: Least) -> Mapping[int, str]:
    places = enumerate(partial.places)
    return {index: place.column for index, place in places if place.ranked and place.column is not None}


def _state_of(places: Sequence[Place]) -> Callable[[Sequence[pa.Array], int], State]:
    """From the values, or ranks, in the places of the least tuples to the partials. Without a tuple, they are null."""

    def state(columns: Sequence[pa.Array], count: int) -> State:
        absent = np.asarray(columns[0].is_null())
        keys = []
        for place, column in zip(places, columns, strict=True):
            integers = place.ranked or place.nullness or place.column is None
            key = _integers(column) if integers else values.fixed_order_keys(column)
            key = np.where(np.asarray(column.is_null()), 0, key)
            keys.append(~key if place.inverted else key)
        return (absent.astype(np.uint8), *keys)

    return state


_COUNTERPARTS: dict[type[Partial], Callable[..., Counterpart | None]] = {
    Count: _count,
    FloatSum: _float_sum,
    IntegerSum: _integer_sum,
    ShortDecimalSum: _decimal_sum,
    LongDecimalSum: _decimal_sum,
    Moments: _moments,
    Least: _least,
}


def _integers(column: pa.Array) -> Int64Array:
    """The integers, 0 for null."""
    return np.asarray(column.fill_null(0) if column.null_count else column).astype(np.int64, copy=False)


def _floats(column: pa.Array) -> Float64Array:
    """The numbers, 0 for null."""
    filled: Array = np.asarray(column.fill_null(0.0) if column.null_count else column)
    return filled.astype(np.float64, copy=False)
