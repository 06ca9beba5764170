"""Aggregates as the user defines them, and their bound form once the types of their columns are known."""

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
    from muntin.holistic.function import HolisticFunction

Types: TypeAlias = Mapping[str, pa.DataType]
Dictionaries: TypeAlias = Mapping[str, pa.Array]
Lower: TypeAlias = Callable[[Sequence[State], Dictionaries], pa.Array]
Where: TypeAlias = Any
"""A filter: a SQL expression as a string, or a Spark column. The core does not inspect it."""


@dataclass(frozen=True)
class Bound:
    """An aggregate with known column types: its partials per pane, and the function that turns them into the answer.

    A holistic aggregate has no partials: it is a function of all tuples of the window.
    """

    partials: tuple[Partial, ...]
    result: pa.DataType
    lower: Lower
    holistic: HolisticFunction | None = None
    aggregate: object = None
    """The aggregate with the columns that it reads; features look up their estimators by its type."""
    where: str | None = None
    """The boolean column of its filter."""
    written: str = ""
    """The aggregate as the user wrote it."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of tuples that it reads."""
        columns = [column for partial in self.partials for column in partial.read]
        return (*columns, *(() if self.holistic is None else self.holistic.inputs))


_POSITIONAL = ("lift", "combine", "lower", "column", "by", "probability", "k")
"""The arguments that `repr` writes without their names, in order."""


@dataclass(frozen=True, eq=False, repr=False)
class Aggregate(ABC):
    """What to compute for each window. Created by the functions of `muntin.aggregates`."""

    where: Where
    commutative: ClassVar[bool] = True
    """Whether the order of the tuples is irrelevant: then partials are combined in order of arrival."""

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
        """The function of `muntin.aggregates` that creates it, and its arguments without the filter."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Given, ...]:
        """The input columns."""

    @abstractmethod
    def reading(self, names: Sequence[str]) -> Aggregate:
        """The same aggregate over columns with these names, given in the order of `columns`."""

    @property
    def as_bound(self) -> Aggregate:
        """The same without its filter. Spark computes the filter, and a Spark column cannot be sent to the workers."""
        return replace(self, where=None)

    @abstractmethod
    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        """Check the types of the columns and choose the partials; `where` is the boolean column of the filter.

        `time` is the type of the event time, for aggregates whose answer is an event time.
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
