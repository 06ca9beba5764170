"""Keys of any type: equality, codes and shards, without a loop over rows or keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, Int64Array, UInt64Array
from muntin.errors import MuntinError
from muntin.partials import values
from muntin.type_names import spark_name


def check_key_type(kind: pa.DataType, column: str, argument: str = "by") -> None:
    if pa.types.is_struct(kind):
        for field in kind:
            check_key_type(field.type, f"{column}.{field.name}", argument)
    elif not (values.is_fixed(kind) or values.is_ranked(kind) or pa.types.is_null(kind)):
        raise MuntinError(
            f"{argument} column {column!r} is of type {spark_name(kind)}, which cannot be a key; "
            "use a string, number, boolean, date, timestamp, decimal or a struct of them."
        )


def normalised(array: pa.Array) -> pa.Array:
    """The key with one representation of equal values: -0.0 is 0.0 and all NaNs are the same, as in Spark's groupBy."""
    kind = array.type
    if pa.types.is_floating(kind):
        keys = values.float_order_keys(values.numbers(array))
        null = np.zeros(len(array), bool) if array.null_count == 0 else ~np.asarray(array.is_valid())
        return values.from_order_keys(keys, kind, None, null)
    if pa.types.is_struct(kind) and any(_contains_floats(field.type) for field in kind):
        mask = array.is_null() if array.null_count else None
        parts = [normalised(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    return array


def _contains_floats(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or (pa.types.is_struct(kind) and any(_contains_floats(f.type) for f in kind))


def encode(columns: Sequence[pa.Array], length: int) -> tuple[Int64Array, Int64Array]:
    """Dense codes of the distinct keys, and the row where each first appears.

    `columns` must be normalised. Without columns, all rows have the same key.
    """
    flat = [part for column in columns for part in _flatten(column)]
    if not flat:
        return np.zeros(length, dtype=np.int64), np.zeros(min(length, 1), dtype=np.int64)
    codes, distinct, first = _column_codes(flat[0])
    for column in flat[1:]:
        column_codes, column_distinct, _ = _column_codes(column)
        # Dense again after every column: the product of two counts of at most 2**31 rows fits 63 bits.
        codes, distinct, first = _column_codes(pa.array(codes * column_distinct + column_codes))
    return codes, _first_rows(codes, distinct) if first is None else first


def _column_codes(column: pa.Array) -> tuple[Int64Array, int, Int64Array | None]:
    """The codes, the number of distinct ones, and the row where each first appears, if it costs nothing extra."""
    if values.is_integer(column.type) and not column.null_count and len(column):
        integers = np.asarray(column)
        least = int(integers.min())
        span = int(integers.max()) - least + 1
        if span <= _DENSE * len(column):
            return _dense_codes(np.subtract(integers, least, dtype=np.int64), span)
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary), None


_DENSE = 2
"""Integers are encoded by a lookup table of their range if that is at most this many times their number."""


def _dense_codes(offsets: Int64Array, span: int) -> tuple[Int64Array, int, Int64Array]:
    """Codes by a lookup table, which is faster than a hash table."""
    first = _first_rows(offsets, span)
    occurs = first < len(offsets)
    if occurs.all():
        return offsets, span, first
    codes = np.cumsum(occurs) - 1
    return codes[offsets], int(codes[-1]) + 1, first[occurs]


def _first_rows(codes: Int64Array, count: int) -> Int64Array:
    """The row where each code first appears; the number of rows for a code that does not."""
    first = np.full(count, len(codes), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last write wins: the earliest row
    return first


def _flatten(column: pa.Array) -> list[pa.Array]:
    """A struct becomes its null mask and its fields; any other column stays as it is."""
    if not pa.types.is_struct(column.type):
        return [column]
    fields = [part for field in column.flatten() for part in _flatten(field)]
    return [column.is_null(), *fields]


def ranks(column: pa.Array) -> Int64Array | None:
    """Integers that sort like the values of a key, nulls first; None for a struct or a column of type null."""
    kind = column.type
    if values.is_fixed(kind):
        ranked = values.fixed_order_keys(column)
    elif values.is_ranked(kind):
        ranked = values.ranked(column)[0]
    else:
        return None
    return np.where(np.asarray(column.is_null()), np.iinfo(np.int64).min, ranked) if column.null_count else ranked


def hashes(columns: Sequence[pa.Array], length: int) -> UInt64Array:
    """A 64-bit hash of every key. It determines the shard of a key, so it must never change between versions."""
    result = np.full(length, 0x9E3779B97F4A7C15, dtype=np.uint64)
    for part in (part for column in columns for part in _flatten(column)):
        with np.errstate(over="ignore"):
            result = mix(result * np.uint64(0xBF58476D1CE4E5B9) + _column_hash(part))
    return result


def _column_hash(column: pa.Array) -> UInt64Array:
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _NULL, dtype=np.uint64)
    if values.is_fixed(kind):
        hashed = mix(values.fixed_order_keys(column).view(np.uint64))
    else:
        hashed = _bytes_hash(column.cast(pa.string()) if pa.types.is_decimal(kind) else column)
    if column.null_count:
        hashed[np.asarray(column.is_null())] = _NULL
    return hashed


_NULL = np.uint64(0xD6E8FEB86659FD93)
_BASE = np.uint64(0x100000001B3)


def _bytes_hash(column: pa.Array) -> UInt64Array:
    """A polynomial over the bytes of every string, modulo 2**64, then mixed."""
    column = column.cast(pa.large_binary()).fill_null(b"")
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(offsets)
    begins = offsets[:-1] - offsets[0]
    result = lengths.astype(np.uint64)
    if lengths.any():
        data = np.frombuffer(data_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
        position = np.arange(len(data)) - np.repeat(begins, lengths)
        with np.errstate(over="ignore"):
            powers = np.cumprod(np.full(int(lengths.max()), _BASE, dtype=np.uint64))
            terms = (data.astype(np.uint64) + np.uint64(1)) * powers[position]
            nonempty = np.flatnonzero(lengths)
            result[nonempty] += np.add.reduceat(terms, begins[nonempty])
    return mix(result)


def mix(bits: Array) -> UInt64Array:
    """The finaliser of SplitMix64: every input bit reaches every output bit."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)), dtype=np.uint64)
