"""Schemas as Spark writes them, and rows in plain Python as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from muntin.errors import MuntinError, suggest
from muntin.files.logical import logical

_SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_OPENING, _CLOSING = "<(", ">)"


def schema_of(given: object) -> pa.Schema:
    """The schema that a text such as "ts timestamp, k string" says, an Arrow schema, or the one of example rows."""
    if isinstance(given, pa.Schema):
        kinds = {field.name: logical(field.type) for field in given}
        unknown = next((name for name, kind in kinds.items() if kind is None), None)
        if unknown is not None:
            raise MuntinError(
                f"schema's column {unknown!r} is of type {given.field(unknown).type}, which Spark has not."
            )
        return pa.schema(list(kinds.items()))
    if isinstance(given, str) and given.strip():
        try:
            return pa.schema(list(_fields(given)))
        except ValueError as error:
            raise MuntinError(
                f"schema {given!r} cannot be read: {error}. Write it as 'ts timestamp, route string, fare double'."
            ) from error
    if isinstance(given, list | tuple) and given and all(isinstance(row, Mapping) for row in given):
        return _inferred(given)
    raise MuntinError(
        "schema must be a text such as 'ts timestamp, route string, fare double', an Arrow schema, or example rows as "
        f"dicts, got {given!r}."
    )


def table_of(rows: object, schema: pa.Schema) -> pa.Table:
    """Rows as a table: dicts, whose missing columns are null, or tuples. Times may be ISO texts; those are in UTC."""
    if isinstance(rows, Mapping | str) or not isinstance(rows, Sequence):
        raise MuntinError(f"rows must be a list of dicts or tuples, got {rows!r}.")
    dicts = [_as_dict(row, schema) for row in rows]
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in dicts]
        try:
            columns.append(pa.array([as_value(value, field.type) for value in values], field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise MuntinError(f"rows do not fit column {field.name!r} of type {field.type}: {error}") from error
    return pa.table(columns, schema=schema)


def as_value(value: Any, kind: pa.DataType) -> Any:
    """A value for a column of this type: times may be texts, and have the zone that the column has."""
    if not pa.types.is_timestamp(kind) or value is None:
        return value
    return as_time(value, naive=kind.tz is None)


def as_time(value: Any, naive: bool = False) -> datetime:
    """A time in UTC, or with `naive` without a zone, from a time or a text."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value[:-1] + "+00:00" if value.endswith("Z") else value)
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} is no time; give a datetime, or a text such as '2024-05-01 12:00'")
    if naive:
        if value.tzinfo is not None:
            raise TypeError(f"{value} has a time zone, and the column has none")
        return value
    return value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)


def _as_dict(row: Any, schema: pa.Schema) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        for name in row:
            if name not in schema.names:
                raise MuntinError(
                    f"rows have a column {name!r}, which is not in the schema. {suggest(name, schema.names)}"
                )
        return row
    if isinstance(row, list | tuple):
        if len(row) != len(schema):
            raise MuntinError(f"row {row!r} has {len(row)} values, and the schema {len(schema)} columns.")
        return dict(zip(schema.names, row, strict=True))
    raise MuntinError(f"rows must be dicts or tuples, got {row!r}.")


def _inferred(rows: Sequence[Mapping[str, Any]]) -> pa.Schema:
    names = dict.fromkeys(name for row in rows for name in row)
    fields = []
    for name in names:
        try:
            kind = logical(pa.array([row.get(name) for row in rows]).type)
        except pa.ArrowException as error:
            raise MuntinError(f"the values of column {name!r} are of several types: {error}") from error
        if kind is None or pa.types.is_null(kind):
            raise MuntinError(f"the type of column {name!r} does not follow from the rows; write the schema as a text.")
        fields.append((name, pa.timestamp("us", tz="UTC") if pa.types.is_timestamp(kind) else kind))
    return pa.schema(fields)


def _fields(text: str, between: str = " ") -> Iterator[tuple[str, pa.DataType]]:
    for part in _split(text):
        if part.startswith("`") and "`" in part[1:]:
            name, _, kind = part[1:].partition("`")
        elif ":" in part.partition("<")[0]:
            name, _, kind = part.partition(":")
        else:
            name, _, kind = part.partition(between)
        yield name.strip(), _type(kind.strip(" :"))


def _type(text: str) -> pa.DataType:
    lower = text.lower().strip()
    if lower in _SIMPLE:
        return _SIMPLE[lower]
    if lower == "decimal":
        return pa.decimal128(10, 0)
    if lower.startswith("decimal(") and lower.endswith(")"):
        precision, *scale = (int(part) for part in _split(lower[8:-1]))
        return pa.decimal128(precision, *scale)
    inner = text.strip()[text.strip().find("<") + 1 : -1]
    if lower.startswith("array<") and lower.endswith(">"):
        return pa.list_(_type(inner))
    if lower.startswith("map<") and lower.endswith(">"):
        key, value = _split(inner)
        return pa.map_(_type(key), _type(value))
    if lower.startswith("struct<") and lower.endswith(">"):
        return pa.struct(list(_fields(inner, ":")))
    raise ValueError(f"{text!r} is no type" if text else "a column has no type")


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
