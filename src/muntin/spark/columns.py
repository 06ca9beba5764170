"""Resolves the columns that users give: their names, their types, and the expressions that compute them.

A string is the exact name of a column; else its name by the session's rule for case; else a nested field, as in Spark's
`groupBy("ev.at")`; else a SQL expression. The name in results is Spark's. Everything is resolved by Spark, from the
schemas of plans that never run.
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
from pyspark.sql import Column, DataFrame, SparkSession
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
    """The name in results, which is Spark's name for it."""
    read: str
    """The name that the stages read: that of a column of the data, or of an expression that Spark computes."""
    kind: pa.DataType
    computed: Column | None = None
    """The expression; None for a column of the data."""


def resolved(source: Source, given: object, what: str, whose: str = "the data") -> Resolved:
    """Resolve a column; `what` is its purpose and `whose` the data, for errors."""
    lookup = _Lookup(source, given.column if isinstance(given, Opaque) else given, what, whose)
    if isinstance(lookup.given, str):
        encodable(lookup.given, what)
        return lookup.by_name(lookup.given) or lookup.by_text(lookup.given)
    if isinstance(lookup.given, Column):
        return lookup.by_column(lookup.given)
    raise MuntinError(f"{what} must be the name of a column, a SQL expression or a Spark column, got {given!r}.")


def case_sensitive(frame: DataFrame) -> bool:
    return sensitive_to_case(frame.sparkSession)


def sensitive_to_case(spark: SparkSession) -> bool:
    return spark.conf.get("spark.sql.caseSensitive", "false") == "true"


def quoted(frame: DataFrame, name: str) -> Column:
    """A column of the data by its name, which may have any characters."""
    return frame["`" + name.replace("`", "``") + "`"]


Batches: TypeAlias = Iterator[pa.RecordBatch]


def map_in_arrow(frame: DataFrame, function: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
    """`mapInArrow` over columns of any name: PySpark does not find names with a dot or a backtick."""
    names = frame.columns
    if not any("." in name or "`" in name for name in names):
        return frame.mapInArrow(function, schema)

    def run(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    return frame.toDF(*(f"column_{number}" for number in range(len(names)))).mapInArrow(run, schema)


def same(frame: DataFrame, first: Column, second: Column) -> bool:
    """Whether Spark computes the same values for both."""
    return first is second or frame.select(first).sameSemantics(frame.select(second))


def short_reason(error: PySparkException) -> str:
    """Spark's error in one sentence, without plans, codes and positions."""
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    line = re.sub(r"^\[[\w.]+\] ", "", line)
    return re.sub(r"[.;]?\s*(SQLSTATE: .*)?$", "", line) + "."


@dataclass(frozen=True)
class _Lookup:
    source: Source
    given: object
    what: str
    whose: str

    def by_name(self, name: str) -> Resolved | None:
        """A column of the data. Its name in results is spelled as the user spelled it, as in Spark."""
        column = self._column_named(name)
        if column is None:
            return None
        if column in self.source.unreadable:
            self._refuse(f"cannot be used: {self.source.unreadable[column]}. Cast or rename it first.")
        return Resolved(name, column, self.source.types[column])

    def by_text(self, text: str) -> Resolved:
        if "." in text or "`" in text:
            try:  # a nested field: as a name, `ev.temp-c` is a field and not a difference
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
            self._refuse_with_reason(error)

    def _analysed(self, column: Column, text: str | None) -> Resolved:
        frame = self.source.frame
        schema = frame.select(column).schema
        if len(schema) != 1:
            self._refuse(f"is {len(schema)} columns; name one of them: {', '.join(map(repr, schema.names))}.")
        name, kind = schema[0].name, schema[0].dataType
        # Spark allows only deterministic expressions with one value per row in an aggregate, which is what is needed
        # here. The aggregate's name has the whole expression; that of the column may leave out casts.
        aggregate_name = frame.agg(F.collect_list(column)).schema[0].name
        sql = aggregate_name.removeprefix("collect_list(").removesuffix(")")
        existing = self._column_named(name) if sql == name else None
        if existing is not None and existing in self.source.types and same(frame, column, quoted(frame, existing)):
            return Resolved(name, existing, self.source.types[existing])
        arrow = to_arrow(kind)
        if arrow is None:
            self._refuse(f"cannot be used: {kind.simpleString()}. Cast it first.")
        return Resolved(name, computed_name(sql if text is None else text), arrow, column)

    def _column_named(self, name: str) -> str | None:
        """The column of this name, as the data spell it."""
        known = [*self.source.types, *self.source.unreadable]
        if name in known:
            return name
        alike = [column for column in known if column.lower() == name.lower()]
        return alike[0] if alike and not case_sensitive(self.source.frame) else None

    def _refuse_with_reason(self, error: PySparkException) -> NoReturn:
        condition, known = error.getCondition() or "", self.source.types
        if condition.startswith("UNRESOLVED_COLUMN"):
            name = (error.getMessageParameters() or {}).get("objectName", "").strip("`").replace("`.`", ".")
            if isinstance(self.given, str) and name == self.given:
                self._refuse(f"is not in {self.whose}. {suggest(name, known)}", error)
            self._refuse(f"needs a column {name!r}, which is not in {self.whose}. {suggest(name, known)}", error)
        reason = next((reason for prefix, reason in _REFUSED.items() if condition.startswith(prefix)), None)
        if reason is None and "window function" in str(error):
            reason = "is a window function over other rows; compute it first, and give its column."
        self._refuse(reason or f"is not a column or an expression over {self.whose}: {short_reason(error)}", error)

    def _refuse(self, why: str, error: Exception | None = None) -> NoReturn:
        raise MuntinError(f"{self.what} {self.given!r} {why}") from error


_REFUSED = {
    "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION": (
        "has another value each time it is computed, so that a replayed batch would differ; write it to a table or a "
        "topic first, and give its column."
    ),
    "NESTED_AGGREGATE_FUNCTION": "is an aggregate of many rows already; give the value of each row that it aggregates.",
    "UNSUPPORTED_GENERATOR": "makes several rows of one; make them first, with data.select(...), and give the column.",
}


@contextmanager
def quietly() -> Iterator[None]:
    """Mute the logs in which Spark reports, with a stack trace, every expression that it cannot resolve."""
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
