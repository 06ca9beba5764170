"""Columns as users give them: a name, a SQL expression or a Spark column. The core does not inspect the last two.

Spark computes an expression before the rows reach Python. The stages read it as a column whose name includes a digest
of the expression. Equal expressions are computed once, and a changed expression gets another name, so it never reads
the state of the old one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from muntin.checks import encodable
from muntin.errors import MuntinError

_PREFIX = "__muntin_expression_"
_DIGEST = 16
_LONGEST_TEXT = 60
"""Names are part of every packed row, so only the beginning of a long expression is kept."""


@runtime_checkable
class SparkColumn(Protocol):
    """The attributes by which the core recognises a Spark column without importing Spark."""

    @property
    def alias(self) -> Any: ...

    @property
    def cast(self) -> Any: ...

    @property
    def isNull(self) -> Any: ...  # noqa: N802


ColumnLike: TypeAlias = str | SparkColumn
"""The name of a column, a SQL expression, or a Spark column."""
Given: TypeAlias = Any
"""A `ColumnLike` as given by the user; after the query has resolved it, the column's name in the stages."""


@dataclass(frozen=True, eq=False)
class Opaque:
    """A Spark column inside a comparable value. It compares by identity, without a call to Spark."""

    column: SparkColumn

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.column is other.column

    def __hash__(self) -> int:
        return id(self.column)

    def __repr__(self) -> str:
        return repr(self.column)


def check_given(column: object, argument: str) -> Any:
    """Check that a value can be a column; whether the column exists is checked against the data."""
    if isinstance(column, str) and column.strip():
        return encodable(column, argument)
    if isinstance(column, SparkColumn) and not isinstance(column, type):
        return column
    raise MuntinError(f"{argument} must be the name of a column, a SQL expression or a Spark column, got {column!r}.")


def computed_name(text: str) -> str:
    """The name of the column that Spark computes for an expression."""
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    short = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    return f"{_PREFIX}{digest} {short}"


def shown(column: object) -> str:
    """A column as the user wrote it, for messages."""
    if isinstance(column, str) and column.startswith(_PREFIX):
        return column[len(_PREFIX) + _DIGEST + 1 :]
    return str(column)
