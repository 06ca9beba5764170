"""Conditions over columns, computed with Arrow by the rules of SQL.

A condition is true, false or null, and null where it depends on a value that is null. NaN is equal to itself and larger
than all numbers, as in Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Columns: TypeAlias = Mapping[str, pa.Array]
Bounds: TypeAlias = Mapping[str, tuple[Any, Any]]
"""The least and the greatest value of columns, as Arrow scalars."""


class Condition(Protocol):
    """A condition. Implementations are frozen dataclasses, which are sent to the workers."""

    @property
    def columns(self) -> frozenset[str]: ...

    def of(self, columns: Columns) -> pa.BooleanArray:
        """The condition for every row."""
        ...

    def possible(self, bounds: Bounds) -> bool:
        """Whether it may be true for a row within these bounds."""
        ...


@dataclass(frozen=True)
class Column:
    """A boolean column as a condition."""

    name: str

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([self.name])

    def of(self, columns: Columns) -> pa.BooleanArray:
        return columns[self.name]

    def possible(self, bounds: Bounds) -> bool:
        return True


@dataclass(frozen=True)
class IsNull:
    name: str

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([self.name])

    def of(self, columns: Columns) -> pa.BooleanArray:
        return pc.is_null(columns[self.name])  # NaN is a value

    def possible(self, bounds: Bounds) -> bool:
        return True


@dataclass(frozen=True)
class Not:
    inner: Condition

    @property
    def columns(self) -> frozenset[str]:
        return self.inner.columns

    def of(self, columns: Columns) -> pa.BooleanArray:
        return pc.invert(self.inner.of(columns))

    def possible(self, bounds: Bounds) -> bool:
        return True


@dataclass(frozen=True)
class And:
    first: Condition
    second: Condition

    @property
    def columns(self) -> frozenset[str]:
        return self.first.columns | self.second.columns

    def of(self, columns: Columns) -> pa.BooleanArray:
        return pc.and_kleene(self.first.of(columns), self.second.of(columns))

    def possible(self, bounds: Bounds) -> bool:
        return self.first.possible(bounds) and self.second.possible(bounds)


@dataclass(frozen=True)
class Or:
    first: Condition
    second: Condition

    @property
    def columns(self) -> frozenset[str]:
        return self.first.columns | self.second.columns

    def of(self, columns: Columns) -> pa.BooleanArray:
        return pc.or_kleene(self.first.of(columns), self.second.of(columns))

    def possible(self, bounds: Bounds) -> bool:
        return self.first.possible(bounds) or self.second.possible(bounds)


@dataclass(frozen=True)
class Compare:
    """A column beside a value or another column, in the type in which Spark compares them."""

    name: str
    operator: str
    """One of = != < <= > >=."""
    kind: pa.DataType
    value: pa.Scalar | None
    other: str = ""
    """The other column, if there is no value."""

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([self.name, self.other] if self.value is None else [self.name])

    def of(self, columns: Columns) -> pa.BooleanArray:
        left = self._in_kind(columns[self.name])
        right = self._in_kind(columns[self.other]) if self.value is None else self.value
        if pa.types.is_floating(self.kind):
            return _with_nan(self.operator, left, right)
        return _OPERATORS[self.operator](left, right)

    def possible(self, bounds: Bounds) -> bool:
        if self.name not in bounds or self.value is None or not _ordered(self.kind):
            return True
        low, high = (bound.cast(self.kind) for bound in bounds[self.name])
        outside = {
            "=": pc.or_(pc.less(self.value, low), pc.greater(self.value, high)),
            "<": pc.greater_equal(low, self.value),
            "<=": pc.greater(low, self.value),
            ">": pc.less_equal(high, self.value),
            ">=": pc.less(high, self.value),
        }.get(self.operator)
        return outside is None or not outside.as_py()

    def _in_kind(self, column: pa.Array) -> pa.Array:
        return column if column.type == self.kind else column.cast(self.kind)


_OPERATORS: dict[str, Any] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _with_nan(operator: str, left: Any, right: Any) -> pa.BooleanArray:
    """Comparisons of floating numbers; those that are not of NaN are Arrow's."""
    if operator in ("<", "<="):
        operator, left, right = {"<": ">", "<=": ">="}[operator], right, left
    both = pc.and_(pc.is_nan(left), pc.is_nan(right))
    if operator == "=":
        return pc.or_(pc.equal(left, right), both)
    if operator == "!=":
        return pc.and_not(pc.not_equal(left, right), both)
    if operator == ">":
        return pc.or_(pc.greater(left, right), pc.and_not(pc.is_nan(left), pc.is_nan(right)))
    # NaN is at least as large as everything; a comparison with null is null, as that of Arrow is.
    return pc.or_(pc.greater_equal(left, right), pc.and_(pc.is_nan(left), pc.is_valid(right)))


def _ordered(kind: pa.DataType) -> bool:
    """Whether values of this type lie within their bounds: NaN does not, and comparisons of others are not needed."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_string(kind)
    )
