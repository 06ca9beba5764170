"""Drivers of Python's DB-API 2.0 (PEP 249): how they write parameters, and which values they take."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from muntin.errors import MuntinError

_PLACEHOLDERS = {
    "qmark": "?",
    "format": "%s",
    "numeric": ":{number}",
    "named": ":p{number}",
    "pyformat": "%(p{number})s",
}
_BY_NAME = ("named", "pyformat")

_TYPES: dict[pa.DataType, tuple[str, str, Any]] = {
    pa.bool_(): ("BOOLEAN", "BOOLEAN", True),
    pa.int8(): ("SMALLINT", "INTEGER", 127),
    pa.int16(): ("SMALLINT", "INTEGER", 2**15 - 1),
    pa.int32(): ("INTEGER", "INTEGER", 2**31 - 1),
    pa.int64(): ("BIGINT", "INTEGER", 2**62 + 1),
    pa.float32(): ("REAL", "REAL", 1.5),
    pa.float64(): ("DOUBLE PRECISION", "REAL", 0.1),
    pa.string(): ("TEXT", "TEXT", "a"),
    pa.binary(): ("BYTEA", "BLOB", b"\x00\xff"),
    pa.date32(): ("DATE", "TEXT", date(1901, 2, 3)),
    pa.timestamp("us", tz="UTC"): (
        "TIMESTAMP WITH TIME ZONE",
        "TEXT",
        datetime(1901, 2, 3, 4, 5, 6, 789_012, timezone.utc),
    ),
    pa.timestamp("us"): ("TIMESTAMP", "TEXT", datetime(1901, 2, 3, 4, 5, 6, 789_012)),
}
"""The type of a column in a database and in SQLite, and a value that no narrower type takes."""


@dataclass(frozen=True)
class Driver:
    """What a connection says about its driver."""

    paramstyle: str
    is_sqlite: bool = False
    """SQLite has no types for times and decimals: they are text."""

    @classmethod
    def of(cls, connection: Any) -> Driver:
        style = next(filter(None, map(_paramstyle, type(connection).__mro__)), None)
        if style not in _PLACEHOLDERS:
            raise MuntinError(
                f"connect returned a {type(connection).__name__}, which is no connection of a driver of Python's "
                "DB-API; give a function such as lambda: sqlite3.connect('fares.db')."
            )
        is_sqlite = isinstance(connection, sqlite3.Connection)
        if getattr(connection, "autocommit", None) is True or (is_sqlite and connection.isolation_level is None):
            raise MuntinError(
                "connect returned a connection that commits every statement, and a batch is one transaction; turn its "
                "autocommit off."
            )
        return cls(style, is_sqlite)

    def placeholders(self, count: int) -> list[str]:
        return [_PLACEHOLDERS[self.paramstyle].format(number=number) for number in range(1, count + 1)]

    def parameters(self, values: Sequence[Any]) -> Any:
        if self.paramstyle in _BY_NAME:
            return {f"p{number}": value for number, value in enumerate(values, start=1)}
        return tuple(values)

    def quoted(self, name: str) -> str:
        """An identifier. Drivers whose parameters begin with a percent sign would take one in a name for another."""
        doubled = name.replace('"', '""')
        return '"' + (doubled.replace("%", "%%") if self.paramstyle in ("format", "pyformat") else doubled) + '"'

    def type_of(self, kind: pa.DataType) -> str:
        if pa.types.is_decimal(kind):
            return "TEXT" if self.is_sqlite else f"NUMERIC({kind.precision}, {kind.scale})"
        return _TYPES[kind][self.is_sqlite]

    def values(self, column: pa.ChunkedArray) -> list[Any]:
        """The values of a column as the driver takes them."""
        values: list[Any] = column.to_pylist()
        convert = self._conversion(column.type)
        return values if convert is None else [None if value is None else convert(value) for value in values]

    def _conversion(self, kind: pa.DataType) -> Callable[[Any], Any] | None:
        if not self.is_sqlite:
            return None
        if pa.types.is_timestamp(kind):
            return lambda time: time.isoformat(" ", "microseconds")
        if pa.types.is_date(kind):
            return lambda day: day.isoformat()
        return str if pa.types.is_decimal(kind) else None


def is_storable(kind: pa.DataType) -> bool:
    """Whether a column of this type can be a column of any database."""
    return kind in _TYPES or pa.types.is_decimal(kind)


def trial_row(columns: Mapping[str, pa.DataType]) -> pa.Table:
    """A row with a value in every column that a narrower column does not take."""

    def value(kind: pa.DataType) -> Any:
        return Decimal(10) ** -kind.scale if pa.types.is_decimal(kind) else _TYPES[kind][2]

    return pa.table({name: pa.array([value(kind)], kind) for name, kind in columns.items()})


def is_same(found: Any, given: Any) -> bool:
    """Whether a database has returned the value that it was given."""
    if isinstance(given, bytes):
        return bytes(found) == given
    if isinstance(given, str | Decimal) and isinstance(found, int | float | Decimal):
        return Decimal(str(found)) == Decimal(given)
    return bool(found == given)


def _paramstyle(kind: type) -> str | None:
    """The style of the package that a class is of."""
    parts = kind.__module__.split(".")
    packages = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((style for name in packages if (style := getattr(sys.modules.get(name), "paramstyle", None))), None)
