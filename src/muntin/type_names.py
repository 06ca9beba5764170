"""The Spark names of Arrow types, for error messages."""

from __future__ import annotations

import pyarrow as pa

_SIMPLE: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.duration("us"): "interval day to second",
    pa.null(): "void",
}


def spark_name(kind: pa.DataType) -> str:
    """The name of the type in Spark; Arrow's name for a type that Spark does not have."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_name(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)},{spark_name(kind.item_type)}>"
    return _SIMPLE.get(kind, str(kind))
