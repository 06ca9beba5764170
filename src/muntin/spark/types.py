"""Spark types to Arrow types and back. Times are in UTC on Muntin's side, whatever the session's time zone."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as T

from muntin.checks import encodable
from muntin.errors import MuntinError

_SIMPLE: tuple[tuple[type[T.DataType], pa.DataType], ...] = (
    (T.BooleanType, pa.bool_()),
    (T.ByteType, pa.int8()),
    (T.ShortType, pa.int16()),
    (T.IntegerType, pa.int32()),
    (T.LongType, pa.int64()),
    (T.FloatType, pa.float32()),
    (T.DoubleType, pa.float64()),
    (T.StringType, pa.string()),
    (T.VarcharType, pa.string()),
    (T.CharType, pa.string()),
    (T.BinaryType, pa.binary()),
    (T.DateType, pa.date32()),
    (T.TimestampType, pa.timestamp("us", tz="UTC")),
    (T.TimestampNTZType, pa.timestamp("us")),
    (T.DayTimeIntervalType, pa.duration("us")),
    (T.NullType, pa.null()),
)
_BACK: dict[pa.DataType, T.DataType] = {
    pa.bool_(): T.BooleanType(),
    pa.int8(): T.ByteType(),
    pa.int16(): T.ShortType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.float32(): T.FloatType(),
    pa.float64(): T.DoubleType(),
    pa.string(): T.StringType(),
    pa.binary(): T.BinaryType(),
    pa.date32(): T.DateType(),
    pa.timestamp("us", tz="UTC"): T.TimestampType(),
    pa.timestamp("us"): T.TimestampNTZType(),
    pa.duration("us"): T.DayTimeIntervalType(),
    pa.null(): T.NullType(),
}


def to_arrow(kind: T.DataType) -> pa.DataType | None:
    """The Arrow type, or None for types that Muntin does not handle (variant, user-defined, collated strings, …)."""
    if isinstance(kind, T.StringType) and getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        return None  # only Spark knows the equality and the order of collated strings
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, T.StructType):
        inner = [(field.name, to_arrow(field.dataType)) for field in kind]
        return None if any(inner_type is None for _, inner_type in inner) else pa.struct(inner)
    if isinstance(kind, T.ArrayType):
        element = to_arrow(kind.elementType)
        return None if element is None else pa.list_(element)
    if isinstance(kind, T.MapType):
        key, value = to_arrow(kind.keyType), to_arrow(kind.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    for spark_type, arrow_type in _SIMPLE:
        if type(kind) is spark_type:
            return arrow_type
    return None


def to_spark(kind: pa.DataType) -> T.DataType:
    if pa.types.is_decimal(kind):
        return T.DecimalType(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return T.StructType([T.StructField(field.name, to_spark(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return T.ArrayType(to_spark(kind.value_type))
    if pa.types.is_map(kind):
        return T.MapType(to_spark(kind.key_type), to_spark(kind.item_type))
    return _BACK[kind]


def result_fields(schema: T.DataType | str) -> pa.Schema:
    """The Arrow schema of results, from a Spark type or its string form."""
    if isinstance(schema, str):
        try:
            schema = T.DataType.fromDDL(schema)
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise MuntinError(
                f"schema {schema!r} cannot be parsed: {reason}. Write it as 'n long, mean double'."
            ) from error
    if not isinstance(schema, T.StructType) or not len(schema):
        raise MuntinError(
            f"schema must be a string such as 'n long, mean double' or a Spark StructType, got {schema!r}."
        )
    fields = []
    for field in schema:
        kind = to_arrow(field.dataType)
        if kind is None:
            raise MuntinError(
                f"schema's column {field.name!r} is of type {field.dataType.simpleString()}, which Muntin does not "
                "handle; use a number, string, boolean, date, timestamp, decimal, or an array, map or struct of them."
            )
        fields.append(pa.field(encodable(field.name, "schema's column"), kind))
    return pa.schema(fields)


def schema_to_spark(schema: pa.Schema) -> T.StructType:
    return T.StructType([T.StructField(field.name, to_spark(field.type)) for field in schema])
