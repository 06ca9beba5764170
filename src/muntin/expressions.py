"""Columns as users give them: a name, a SQL expression or a Spark column. The core never looks inside the last two.

Spark computes an expression before the rows reach Python. The stages read it as a column whose name has a digest of
the expression, so that equal ones are computed once, and another expression is another column: state made of the old
one is not taken for state of the new.
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
"""Names are in every packed row: of a long expression the beginning is enough to know it by."""


@runtime_checkable
class SparkColumn(Protocol):
    """What is known of a Spark column where Spark is not."""

    @property
    def alias(self) -> Any: ...

    @property
    def cast(self) -> Any: ...

    @property
    def isNull(self) -> Any: ...  # noqa: N802


ColumnLike: TypeAlias = str | SparkColumn
"""The name of a column, a SQL expression, or a Spark column."""
Given: TypeAlias = Any
"""A `ColumnLike` in what the user made; once a query has resolved it, the name that the stages read it by."""


@dataclass(frozen=True, eq=False)
class Opaque:
    """A Spark column within a value that can be compared: it equals itself, and asks Spark nothing."""

    column: SparkColumn

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.column is other.column

    def __hash__(self) -> int:
        return id(self.column)

    def __repr__(self) -> str:
        return repr(self.column)


def check_given(column: object, argument: str) -> Any:
    """That it is something that a column can be given as; what it means only the data can tell."""
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
    """A column as a user knows it, for messages."""
    if isinstance(column, str) and column.startswith(_PREFIX):
        return column[len(_PREFIX) + _DIGEST + 1 :]
    return str(column)
