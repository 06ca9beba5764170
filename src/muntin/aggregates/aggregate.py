"""Aggregates as the user names them, and what they become once the types of their columns are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import pyarrow as pa

from muntin.arrays import State
from muntin.checks import encodable
from muntin.errors import MuntinError, suggest
from muntin.expressions import Given, check_given, shown
from muntin.partials.partial import Partial
from muntin.type_names import spark_name
from muntin.written import call

if TYPE_CHECKING:
    from muntin.holistic.function import Whole

Types: TypeAlias = Mapping[str, pa.DataType]
Dictionaries: TypeAlias = Mapping[str, pa.Array]
Lower: TypeAlias = Callable[[Sequence[State], Dictionaries], pa.Array]
Where: TypeAlias = Any
"""A filter: a SQL expression as a string, or a Spark column. The core never looks inside."""


@dataclass(frozen=True)
class Bound:
    """An aggregate whose columns are known: what it keeps per pane, and how that becomes the answer.

    A holistic one keeps no partials: it is a function of the whole window's tuples.
    """

    partials: tuple[Partial, ...]
    result: pa.DataType
    lower: Lower
    whole: Whole | None = None
    aggregate: object = None
    """The aggregate itself, with the columns that it reads: features find their estimators by its type."""
    where: str | None = None
    """The column that holds its filter."""
    written: str = ""
    """The aggregate as the user wrote it."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of tuples that it is computed from."""
        kept = [column for partial in self.partials for column in partial.read]
        return (*kept, *(() if self.whole is None else self.whole.inputs))


_POSITIONAL = ("lift", "combine", "lower", "column", "by", "probability", "k")
"""The arguments that are written without their names, in their order."""


@dataclass(frozen=True, eq=False, repr=False)
class Aggregate(ABC):
    """What to compute of each window. Made by the functions of `muntin.aggregates`."""

    where: Where
    commutative: ClassVar[bool] = True
    """Whether the order of the tuples does not matter: such partials may be combined as they arrive."""

    def __post_init__(self) -> None:
        if isinstance(self.where, str) and not self.where.strip():
            raise MuntinError("where is an empty string; give a SQL condition such as 'fare > 10', or leave it out.")
        if isinstance(self.where, str):
            encodable(self.where, "where")

    def __repr__(self) -> str:
        function, arguments = self.written
        named = {name: value for name, value in {**arguments, "where": self.where}.items() if value is not None}
        positional = [named.pop(name) for name in _POSITIONAL if name in named]
        return call(f"A.{function}", *positional, **named)

    @property
    @abstractmethod
    def written(self) -> tuple[str, Mapping[str, object]]:
        """The function of `muntin.aggregates` that makes it, and its arguments but for the filter."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Given, ...]:
        """The input columns that it reads."""

    @abstractmethod
    def reading(self, names: Sequence[str]) -> Aggregate:
        """The same of columns with these names, which stand for its own, in their order."""

    @property
    def as_bound(self) -> Aggregate:
        """The same without its filter, which Spark computes: a Spark column cannot go to the workers."""
        return replace(self, where=None)

    @abstractmethod
    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        """Check the types of the columns and choose the partials; `where` is the column that holds the filter.

        `time` is the type of the event time, for aggregates that answer with one.
        """


@dataclass(frozen=True, eq=False, repr=False)
class OfColumn(Aggregate):
    """An aggregate of one column."""

    column: Given

    def __post_init__(self) -> None:
        super().__post_init__()
        check_given(self.column, "column")

    @property
    def columns(self) -> tuple[Given, ...]:
        return (self.column,)

    def reading(self, names: Sequence[str]) -> Aggregate:
        (column,) = names
        return replace(self, column=column)


def type_of(column: str, types: Types) -> pa.DataType:
    if column not in types:
        raise MuntinError(f"There is no column {shown(column)!r} in the data. {suggest(column, types)}")
    return types[column]


def overflow(what: str, kind: pa.DataType) -> MuntinError:
    named = "a 64-bit integer" if pa.types.is_int64(kind) else f"{spark_name(kind)}, which is its type in Spark,"
    return MuntinError(
        f"{what} overflows {named} in at least one window; cast the column to double, or use smaller windows."
    )
