"""The types of columns in files as Spark reads them, which are those of Muntin."""

from __future__ import annotations

import pyarrow as pa

_SAME = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.null(),
)
_OTHERS: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def logical(kind: pa.DataType) -> pa.DataType | None:
    """The type of a column of this type; None if Muntin cannot read it."""
    if kind in _SAME:
        return kind
    if pa.types.is_dictionary(kind):
        return logical(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if pa.types.is_duration(kind):
        return pa.int64()  # a file has its number, and Spark reads that
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= 38 and kind.scale >= 0 else None
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        fields = [(field.name, logical(field.type)) for field in kind]
        return None if any(inner is None for _, inner in fields) else pa.struct(fields)
    if pa.types.is_map(kind):
        key, item = logical(kind.key_type), logical(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = logical(kind.value_type)
        return None if element is None else pa.list_(element)
    return _OTHERS.get(kind)
