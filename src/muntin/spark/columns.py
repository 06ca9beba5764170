"""What a user gives for a column, found in the data: its names, its type, and the expression that computes it.

A string is the name of a column, exactly; else by the session's rule for case; else a nested field, as in Spark's
`groupBy("ev.at")`; else a SQL expression. What Spark calls it is its name in results. Everything is asked of Spark by
the schemas of plans that never run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.checks import encodable
from muntin.errors import MuntinError, suggest
from muntin.expressions import Opaque, computed_name
from muntin.spark.types import to_arrow

if TYPE_CHECKING:
    from muntin.spark.source import Source


@dataclass(frozen=True, eq=False)
class Resolved:
    name: str
    """In results, as Spark would call it."""
    read: str
    """The name that the stages read it by: that of a column of the data, or of one that Spark computes for it."""
    kind: pa.DataType
    computed: Column | None = None
    """What computes it; None for a column of the data."""


def resolved(source: Source, given: object, what: str, whose: str = "the data") -> Resolved:
    """`what` tells what it is for, and `whose` what it is looked for in, for errors."""
    asked = _Asked(source, given.column if isinstance(given, Opaque) else given, what, whose)
    if isinstance(asked.given, str):
        encodable(asked.given, what)
        return asked.by_name(asked.given) or asked.by_text(asked.given)
    if isinstance(asked.given, Column):
        return asked.by_column(asked.given)
    raise MuntinError(f"{what} must be the name of a column, a SQL expression or a Spark column, got {given!r}.")


def case_sensitive(frame: DataFrame) -> bool:
    return frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"


def quoted(frame: DataFrame, name: str) -> Column:
    """A column of the data by its name, whatever is in it."""
    return frame["`" + name.replace("`", "``") + "`"]


Batches: TypeAlias = Iterator[pa.RecordBatch]


def map_in_arrow(frame: DataFrame, function: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
    """`mapInArrow` over columns of any name: PySpark itself does not find one with a dot or a backtick in it."""
    names = frame.columns
    if not any("." in name or "`" in name for name in names):
        return frame.mapInArrow(function, schema)

    def run(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    return frame.toDF(*(f"column_{number}" for number in range(len(names)))).mapInArrow(run, schema)


def same(frame: DataFrame, first: Column, second: Column) -> bool:
    """Whether Spark computes the same for both."""
    return first is second or frame.select(first).sameSemantics(frame.select(second))


def short_reason(error: PySparkException) -> str:
    """What Spark says in one sentence, without what a user of Muntin cannot know: plans, codes, places in the text."""
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    line = re.sub(r"^\[[\w.]+\] ", "", line)
    return re.sub(r"[.;]?\s*(SQLSTATE: .*)?$", "", line) + "."


@dataclass(frozen=True)
class _Asked:
    source: Source
    given: object
    what: str
    whose: str

    def by_name(self, name: str) -> Resolved | None:
        """A column of the data, which is called what the user called it, as in Spark."""
        found = self._column_named(name)
        if found is None:
            return None
        if found in self.source.unreadable:
            self._refuse(f"cannot be used: {self.source.unreadable[found]}. Cast or rename it first.")
        return Resolved(name, found, self.source.types[found])

    def by_text(self, text: str) -> Resolved:
        if "." in text or "`" in text:
            try:  # a nested field by the rules for names, where `ev.temp-c` is a field and not a difference
                with quietly():
                    return self._analysed(F.col(text), text)
            except PySparkException:
                pass
        return self._explained(text, text)

    def by_column(self, column: Column) -> Resolved:
        return self._explained(column, None)

    def _explained(self, given: str | Column, text: str | None) -> Resolved:
        try:
            with quietly():
                return self._analysed(F.expr(given) if isinstance(given, str) else given, text)
        except PySparkException as error:
            self._tell(error)

    def _analysed(self, column: Column, text: str | None) -> Resolved:
        frame = self.source.frame
        schema = frame.select(column).schema
        if len(schema) != 1:
            self._refuse(f"is {len(schema)} columns; name one of them: {', '.join(map(repr, schema.names))}.")
        name, kind = schema[0].name, schema[0].dataType
        # An aggregate takes what has one value for a row that is the same each time: nothing else will do here, and it
        # tells the whole expression, where the name of a column may leave out casts.
        described = frame.agg(F.collect_list(column)).schema[0].name
        sql = described.removeprefix("collect_list(").removesuffix(")")
        own = self._column_named(name) if sql == name else None
        if own is not None and own in self.source.types and same(frame, column, quoted(frame, own)):
            return Resolved(name, own, self.source.types[own])
        arrow = to_arrow(kind)
        if arrow is None:
            self._refuse(f"cannot be used: {kind.simpleString()}. Cast it first.")
        return Resolved(name, computed_name(sql if text is None else text), arrow, column)

    def _column_named(self, name: str) -> str | None:
        """The data's own spelling of a name."""
        known = [*self.source.types, *self.source.unreadable]
        if name in known:
            return name
        alike = [each for each in known if each.lower() == name.lower()]
        return alike[0] if alike and not case_sensitive(self.source.frame) else None

    def _tell(self, error: PySparkException) -> NoReturn:
        condition, known = error.getCondition() or "", self.source.types
        if condition.startswith("UNRESOLVED_COLUMN"):
            name = (error.getMessageParameters() or {}).get("objectName", "").strip("`").replace("`.`", ".")
            if isinstance(self.given, str) and name == self.given:
                self._refuse(f"is not in {self.whose}. {suggest(name, known)}", error)
            self._refuse(f"needs a column {name!r}, which is not in {self.whose}. {suggest(name, known)}", error)
        reason = next((told for found, told in _REFUSED.items() if condition.startswith(found)), None)
        if reason is None and "window function" in str(error):
            reason = "looks at other rows; compute it before, and give its column."
        self._refuse(reason or f"is not a column or an expression over {self.whose}: {short_reason(error)}", error)

    def _refuse(self, why: str, error: Exception | None = None) -> NoReturn:
        raise MuntinError(f"{self.what} {self.given!r} {why}") from error


_REFUSED = {
    "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION": (
        "is another value each time that it is computed, and so would a replayed batch be; write it to a table or a "
        "topic first, and give its column."
    ),
    "NESTED_AGGREGATE_FUNCTION": "is an aggregate of many rows already; give what it is of, a value of each row.",
    "UNSUPPORTED_GENERATOR": "makes several rows of one; make them before, with data.select(...), and give the column.",
}


@contextmanager
def quietly() -> Iterator[None]:
    """Spark logs every expression that it cannot compute, with a stack trace; here it has only been asked whether."""
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
