"""The types of columns that are written as text, in CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.files.zones import UTC, points_in_time
from muntin.type_names import spark_name


def inferred(schema: pa.Schema) -> pa.Schema:
    """The types that a parser found, as Spark would have them: times are points in time, and nothing is a text."""
    return pa.schema([(field.name, _of_text(field.type, top=True)) for field in schema])


def _of_text(kind: pa.DataType, top: bool) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return UTC if top else pa.string()
    if pa.types.is_null(kind) or pa.types.is_time(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_of_text(kind.value_type, top=False))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _of_text(field.type, top=False)) for field in kind])
    return kind


def readable(kind: pa.DataType) -> pa.DataType:
    """The type in which a column is parsed.

    Points in time are texts first, since they may lack a time zone, and dates, since Arrow's JSON has none.
    """
    return pa.string() if kind in (UTC, pa.date32()) else kind


def typed(batch: pa.RecordBatch, wanted: Mapping[str, pa.DataType], zone: str) -> pa.RecordBatch:
    """The wanted columns in their types. A batch without any keeps its columns, and so its rows."""
    if not wanted:
        return batch
    columns = []
    for name, kind in wanted.items():
        column = batch.column(name)
        if kind == UTC:
            column = points_in_time(column, zone)
        columns.append(column.cast(kind) if kind == pa.date32() else column)
    return pa.RecordBatch.from_arrays(columns, list(wanted))


def check_types(schema: pa.Schema, form: str, nested: bool) -> None:
    """Check that columns of these types can be read from text; `nested` whether structs and lists can."""
    for field in schema:
        kind = _unreadable(field.type, nested, top=True)
        if kind is not None:
            raise MuntinError(
                f"schema's column {field.name!r} is of type {spark_name(field.type)}, which muntin.scan does not read "
                f"from {form}: {kind}. Leave it out, read it as a string, or use spark.read.{form}."
            )


def _unreadable(kind: pa.DataType, nested: bool, top: bool) -> str | None:
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        if not nested:
            return "it has no nested types"
        inner = [field.type for field in kind] if pa.types.is_struct(kind) else [kind.value_type]
        return next((found for each in inner if (found := _unreadable(each, nested, top=False))), None)
    if pa.types.is_map(kind) or pa.types.is_binary(kind) or pa.types.is_duration(kind) or pa.types.is_null(kind):
        return f"{spark_name(kind)} has no form there that all programs agree on"
    if not top and readable(kind) != kind:
        return f"a {spark_name(kind)} inside another column"
    return None
