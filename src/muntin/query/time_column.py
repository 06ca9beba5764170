"""Checks the type of a time column, with advice on how to convert other types."""

from __future__ import annotations

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.partials.values import is_integer, is_number
from muntin.type_names import spark_name


def check_time(kind: pa.DataType, column: str, whose: str = "") -> None:
    """Check that the event time is a timestamp; `whose` names the input in errors, if there are several."""
    if not pa.types.is_timestamp(kind):
        raise MuntinError(
            f"time column {column!r}{whose} is of type {spark_name(kind)}, not a timestamp; {_advice(kind, column)}"
        )


def _advice(kind: pa.DataType, column: str) -> str:
    if is_integer(kind):
        return (
            f"say what it counts: F.timestamp_seconds({column!r}) if it counts seconds since 1970, "
            f"F.timestamp_millis({column!r}) for milliseconds, F.timestamp_micros({column!r}) for microseconds."
        )
    if is_number(kind) or pa.types.is_decimal(kind):
        return (
            f"if it counts seconds since 1970, with a fraction, give F.timestamp_seconds({column!r}); of milliseconds, "
            f"F.timestamp_seconds(F.col({column!r}) / 1000)."
        )
    if pa.types.is_string(kind):
        return (
            f"read it as one, with its format: F.to_timestamp({column!r}, 'yyyy-MM-dd HH:mm:ss'), or without for "
            f"ISO 8601, such as '2026-01-31T12:30:00Z'."
        )
    if pa.types.is_date(kind):
        return f"give F.to_timestamp({column!r}): the midnight that the day begins with, in the session's time zone."
    if pa.types.is_struct(kind):
        times = [field.name for field in kind if pa.types.is_timestamp(field.type)]
        fields = ", ".join(repr(f"{column}.{name}") for name in times or [field.name for field in kind])
        return f"name one of its fields: {fields}."
    return "give a column or an expression of type timestamp."
