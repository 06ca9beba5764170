"""`watermark=`: a delay behind the latest row, or a column of the rows that carries watermarks (punctuation)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from muntin.durations import Duration, microseconds, microseconds_from_zero
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, SparkColumn, shown
from muntin.query.backend import Resolved, Source, backend_of
from muntin.type_names import spark_name

WINDOW_TIME = "window_time"
"""The event time of results."""
NO_WATERMARK = (
    "'window_time' has no watermark. Results have one, but not those with updates (.emit('on_change'), "
    ".late('update')) or of max_wait=, whose windows are emitted several times or after the watermark has passed them; "
    "nor does an expression over it, or a name that was given to another column."
)
"""Why results of a query cannot be the data of another one."""


@dataclass(frozen=True)
class Watermark:
    """What an input's watermark follows."""

    delay: int | None
    """How far it is behind, in microseconds; None where there is no watermark."""
    column: Resolved | None = None
    """The column that it follows, if that is not the event time."""

    def followed(self, time: str) -> str:
        """The name of the column that it follows, in the stages."""
        return time if self.column is None else self.column.read


def resolved_watermark(
    source: Source, given: Duration | ColumnLike | None, time: str, kind: pa.DataType, whose: str = "the data"
) -> Watermark:
    """What `watermark=` says, for an input whose event time is `time`, of type `kind`.

    A text that is a duration is one. Every other text is a column or an expression.
    """
    if given is None:
        return Watermark(source.watermarks.get(time))
    if isinstance(given, timedelta):
        return Watermark(microseconds_from_zero(given, "watermark"))
    if not isinstance(given, str):
        if isinstance(given, type) or not isinstance(given, SparkColumn):
            raise MuntinError(
                "watermark must be a duration such as '5 minutes' or a datetime.timedelta, or a column or a SQL "
                f"expression with the watermarks that rows carry, got {given!r}."
            )
        return Watermark(0, _column(source, given, time, kind, whose))
    try:
        microseconds(given, "watermark")
    except MuntinError as error:
        return Watermark(0, _column_by_text(source, given, time, kind, whose, error))
    _check_unambiguous(source, given)
    return Watermark(microseconds_from_zero(given, "watermark"))


def _column_by_text(
    source: Source, text: str, time: str, kind: pa.DataType, whose: str, no_duration: MuntinError
) -> Resolved:
    """The column that a text names which is no duration; an error that says why it is neither."""
    try:
        return _column(source, text, time, kind, whose)
    except MuntinError as no_column:
        raise MuntinError(f"{no_duration} Nor is it a column with watermarks: {no_column}") from no_column


def _check_unambiguous(source: Source, text: str) -> None:
    kind = source.types.get(text)
    if kind is not None and pa.types.is_timestamp(kind):
        raise MuntinError(
            f"watermark is {text!r}, which is a duration, and a column of the data, too: give a datetime.timedelta for "
            f"the duration, or F.col('`{text}`') for the column with watermarks."
        )


def _column(source: Source, given: ColumnLike, time: str, kind: pa.DataType, whose: str) -> Resolved:
    column = backend_of(source).resolved(source, given, "watermark", whose)
    name = shown(column.read)
    if not pa.types.is_timestamp(column.kind):
        raise MuntinError(
            f"watermark {name!r} is of type {spark_name(column.kind)}; a column with watermarks is a timestamp."
        )
    if column.kind != kind:
        raise MuntinError(
            f"watermark {name!r} is of type {spark_name(column.kind)}, and the time column {shown(time)!r} of type "
            f"{spark_name(kind)}; cast one of them, so that both are with a time zone or both without."
        )
    return column
