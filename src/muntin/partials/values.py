"""Values as 64-bit integers that sort as Spark sorts the values.

`min`, `max`, `first`, `last`, `argmin` and `argmax` only ever compare and keep values, so they work on *order keys*:
integers and times as they are, floating numbers by their bits, everything else by its rank in a sorted dictionary.
One NumPy kernel then serves all types, in the pane stage as in the tree.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Array, BoolArray, Float64Array, Int64Array, any_true
from muntin.errors import MuntinError
from muntin.type_names import spark_name

_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)


@lru_cache(maxsize=256)
def is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind))


@lru_cache(maxsize=256)
def is_number(kind: pa.DataType) -> bool:
    return is_integer(kind) or bool(pa.types.is_floating(kind))


@lru_cache(maxsize=256)
def is_numeric(kind: pa.DataType) -> bool:
    return is_number(kind) or bool(pa.types.is_decimal(kind))


@lru_cache(maxsize=256)
def is_fixed(kind: pa.DataType) -> bool:
    """Types whose values can be converted to order keys one by one, without a dictionary."""
    return is_number(kind) or any(
        test(kind) for test in (pa.types.is_boolean, pa.types.is_date32, pa.types.is_timestamp, pa.types.is_duration)
    )


@lru_cache(maxsize=256)
def is_text(kind: pa.DataType) -> bool:
    """Strings and bytes."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


@lru_cache(maxsize=256)
def is_ranked(kind: pa.DataType) -> bool:
    """Types whose values are stored in a sorted dictionary and compared by rank."""
    return is_text(kind) or bool(pa.types.is_decimal(kind))


def check_orderable(kind: pa.DataType, what: str) -> None:
    if not (is_fixed(kind) or is_ranked(kind)):
        raise MuntinError(
            f"{what} is of type {spark_name(kind)}, whose values cannot be compared here; "
            "select a field of it, or cast it to a number, a string, a date or a timestamp."
        )


def valid_mask(array: pa.Array) -> BoolArray | None:
    """True where the array is not null; None if it has no nulls."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def float_order_keys(values: Float64Array) -> Int64Array:
    """IEEE 754 bits sort like the numbers once the bits of negative ones are flipped; NaN becomes the largest."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        canonical = np.where(np.isnan(values), np.nan, values + 0.0)  # + 0.0 turns -0.0 into 0.0, as Spark does
    bits = canonical.view(np.int64)
    return np.where(bits < 0, bits ^ _SIGN, bits)


def floats_from_order_keys(keys: Int64Array) -> Float64Array:
    return np.where(keys < 0, keys ^ _SIGN, keys).view(np.float64)


def fixed_order_keys(array: pa.Array) -> Int64Array:
    """Order keys of a fixed type; nulls give an arbitrary key."""
    kind = array.type
    if pa.types.is_floating(kind):
        return float_order_keys(numbers(array))
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif not is_integer(kind):
        array = array.cast(pa.int64())
    return np.asarray(filled(array).to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def from_order_keys(keys: Int64Array, kind: pa.DataType, dictionary: pa.Array | None, null: BoolArray) -> pa.Array:
    """The values behind `keys`, null where `null` is set."""
    if dictionary is not None:
        ranks = pa.array(np.where(null, 0, keys), mask=null)
        return dictionary.take(ranks)
    if pa.types.is_floating(kind):
        return pa.array(floats_from_order_keys(keys), mask=null).cast(kind, safe=False)
    if pa.types.is_boolean(kind):
        return pa.array(keys != 0, mask=null)
    integers = pa.array(np.where(null, 0, keys), mask=null)
    return integers.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else integers.cast(kind)


def ranked(array: pa.Array) -> tuple[Int64Array, pa.Array]:
    """The rank of every value in a sorted dictionary, and that dictionary; nulls get an arbitrary rank."""
    encoded = array.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.zeros(max(len(order), 1), dtype=np.int64)
    rank[order] = np.arange(len(order))
    codes = np.asarray(filled(encoded.indices).to_numpy(zero_copy_only=False))
    return rank[codes], encoded.dictionary.take(pa.array(order))


def union_ranked(dictionaries: list[pa.Array]) -> tuple[pa.Array, list[Int64Array]]:
    """One sorted dictionary of all values, and for each dictionary the new rank of each old rank."""
    ranks, union = ranked(pa.concat_arrays(dictionaries))
    cuts = np.cumsum([len(dictionary) for dictionary in dictionaries])[:-1]
    return union, [part if len(part) else np.zeros(1, np.int64) for part in np.split(ranks, cuts)]


def numbers(array: pa.Array) -> Float64Array:
    """A numeric array as float64; nulls give an arbitrary number."""
    if pa.types.is_decimal(array.type):
        # Arrow multiplies by 0.001, which is not exact in double precision: 54.895 becomes 54.894999999999996.
        low, high = units(array)
        unscaled = np.where(high == low >> 63, low, high * 2.0**64 + low.view(np.uint64))
        return np.asarray(unscaled / 10.0**array.type.scale)
    return np.asarray(filled(array).to_numpy(zero_copy_only=False)).astype(np.float64, copy=False)


def units(decimals: pa.Array) -> tuple[Int64Array, Int64Array]:
    """The unscaled integer of each decimal: its lower and its upper 64 bits. Nulls give arbitrary ones."""
    if not len(decimals):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    halves = np.frombuffer(decimals.buffers()[1], dtype=np.int64).reshape(-1, 2)
    halves = halves[decimals.offset : decimals.offset + len(decimals)]
    return np.ascontiguousarray(halves[:, 0]), halves[:, 1]


def viewed(numbers: Int64Array, kind: pa.DataType) -> pa.Array:
    """Integers as values of a type of the same width, such as a time, without a copy."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def of_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_decimal(array.type) and pa.types.is_float64(kind):
        return pa.array(numbers(array), mask=np.asarray(array.is_null()))
    number = kind.value_type if pa.types.is_list(kind) else kind
    return array.cast(kind, safe=not pa.types.is_floating(number))  # integers beyond 2**53 are rounded, as in Spark


def taken(columns: pa.RecordBatch, indices: Int64Array) -> pa.RecordBatch:
    """The rows at `indices`. NumPy takes numbers of a few rows much faster than Arrow's `take`."""
    if not columns.num_columns:
        return columns
    arrays = [taken_from(array, indices) for array in columns.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.schema)


def taken_from(array: pa.Array, indices: Int64Array) -> pa.Array:
    if is_number(array.type) and not array.null_count:
        return pa.array(np.asarray(array)[indices])
    return array.take(pa.array(indices))


def masked(numbers: Array, missing: BoolArray) -> pa.Array:
    """Numbers with nulls where they are missing. Only the bits of the nulls are new; the numbers are not copied."""
    if not any_true(missing):
        return pa.array(numbers)
    valid_bits = np.packbits(~missing, bitorder="little")
    buffers = [pa.py_buffer(valid_bits), pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), buffers)


def nan_as_null(numbers: Float64Array) -> pa.Array:
    return masked(numbers, np.isnan(numbers))


def filled(array: pa.Array) -> pa.Array:
    """The array with a placeholder for nulls, so that NumPy can read it."""
    return array.fill_null(False if pa.types.is_boolean(array.type) else 0) if array.null_count else array
