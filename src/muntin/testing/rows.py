"""The input of a query that runs without Spark: columns with their types, in place of a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import pyarrow as pa

from muntin.errors import MuntinError, suggest
from muntin.files.conditions import Condition
from muntin.files.sql import condition_of

ON_SPARK = "Run the test on Spark for that: Stream(..., spark=spark)."


@dataclass(frozen=True)
class Rows:
    """A stream of rows with these columns. `muntin.over` takes it as it takes a DataFrame."""

    muntin_backend: ClassVar[str] = "muntin.testing.backend"

    types: dict[str, pa.DataType]
    unreadable: dict[str, str] = field(default_factory=dict)
    streaming: bool = True
    beside: tuple[Any, ...] = ()
    watermarks: Mapping[str, int] = field(default_factory=dict)
    tells_rows_apart: bool = True
    scan: None = None

    @property
    def frame(self) -> NoReturn:
        raise MuntinError(f"This query runs without Spark, and its input is no DataFrame. {ON_SPARK}")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise MuntinError(
            f"The rows of a query that runs without Spark have no {name!r}, as a DataFrame has. {ON_SPARK}"
        )

    def column(self, name: str) -> str | None:
        """The column of this name, in Spark's way: upper and lower case are the same."""
        if name in self.types:
            return name
        alike = [column for column in self.types if column.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None

    def filter(self, where: Any) -> Condition:
        condition = condition_of(where, self.types) if isinstance(where, str) else None
        if condition is None:
            raise MuntinError(
                f"where={where!r} is no condition that is computed without Spark: those compare columns of the rows "
                f"with values. {ON_SPARK} The columns are {', '.join(self.types)}."
            )
        return condition

    def text_of(self, where: Any) -> str:
        return str(where)

    def same(self, first: Any, second: Any) -> bool:
        return bool(first == second)


@dataclass(frozen=True)
class Plain:
    """A column of the rows."""

    name: str
    read: str
    kind: pa.DataType
    computed: None = None


def resolved(source: Rows, given: object, what: str, whose: str = "the rows") -> Plain:
    """A column that the user names; expressions need Spark."""
    if not isinstance(given, str):
        raise MuntinError(f"{what} {given!r} is no name of a column, and is not computed without Spark. {ON_SPARK}")
    column = source.column(given)
    if column is not None:
        return Plain(given, column, source.types[column])
    if given.isidentifier():
        raise MuntinError(f"{what} {given!r} is not in {whose}. {suggest(given, source.types)}")
    raise MuntinError(f"{what} {given!r} is an expression, which is not computed without Spark. {ON_SPARK}")
