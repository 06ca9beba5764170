"""Keys of any type: equality, codes and shards, without a loop over rows or keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Array, Int64Array, UInt64Array, numbered
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


@dataclass(frozen=True)
class KeyCodes:
    """The code of each row's key, and the keys behind codes. Not every code below `count` needs to occur."""

    codes: Int64Array
    count: int
    keys: Callable[[Int64Array], list[pa.Array]]
    """The columns of the keys with some codes."""

    def dense(self) -> KeyCodes:
        """Codes of which every one occurs, in the same order."""
        if self.count > max(_LOOKUP, _LOOKUP_PER_ROW * len(self.codes)):
            numbers, distinct = numbered(self.codes, self.count)
        else:
            occurs = np.zeros(self.count, dtype=bool)
            occurs[self.codes] = True
            if occurs.all():
                return self
            distinct = np.flatnonzero(occurs)
            number = np.empty(self.count, dtype=np.int64)
            number[distinct] = np.arange(len(distinct))
            numbers = number[self.codes]
        return KeyCodes(numbers, len(distinct), lambda codes: self.keys(distinct[codes]))

    def beside(self, right: KeyCodes) -> KeyCodes:
        """The codes of pairs of keys."""
        count = self.count * right.count  # both are below 2**31
        codes = self.codes * right.count
        codes += right.codes

        def keys(of: Int64Array) -> list[pa.Array]:
            left = of // right.count
            return [*self.keys(left), *right.keys(of - left * right.count)]

        pairs = KeyCodes(codes, count, keys)
        return pairs if count < MOST_CODES else pairs.dense()


MOST_CODES = 1 << 31
_LOOKUP, _LOOKUP_PER_ROW = 1 << 12, 4
"""Codes are made dense by a lookup table up to this many, or up to this many per row; else they are sorted."""


class Encoder:
    """Encodes the keys of one batch after the other. It remembers texts, which are the slowest to encode."""

    def __init__(self) -> None:
        self._known: dict[int, pa.Array] = {}

    def encode(self, columns: Sequence[pa.Array], length: int) -> KeyCodes:
        """`columns` must be normalised. Without columns, all rows have the same key."""
        if not columns:
            return KeyCodes(np.zeros(length, dtype=np.int64), 1, lambda _: [])
        coded = [self._column(index, column) for index, column in enumerate(columns)]
        return reduce(KeyCodes.beside, coded)

    def _column(self, index: int, column: pa.Array) -> KeyCodes:
        kind = column.type
        if pa.types.is_struct(kind):
            parts = [Encoder()._column(0, part) for part in _flatten(column)]
            codes = reduce(KeyCodes.beside, parts).dense()
            first = _first_rows(codes.codes, codes.count)
            return KeyCodes(codes.codes, codes.count, lambda of: [column.take(pa.array(first[of]))])
        if values.is_fixed(kind) and not pa.types.is_floating(kind) and not column.null_count and len(column):
            integers = np.asarray(column) if values.is_integer(kind) else values.fixed_order_keys(column)
            least = int(integers.min())
            span = int(integers.max()) - least + 1
            if span < MOST_CODES:
                return _of_integers(integers, least, span, kind)
        if values.is_text(kind):
            return self._text(index, column)
        return _of_dictionary(column.dictionary_encode(null_encoding="encode"))

    def _text(self, index: int, column: pa.Array) -> KeyCodes:
        """Known texts are found in one hash table; only new ones are added to it."""
        known = self._known.get(index)
        if known is None or not _PER_KNOWN * len(known) < len(column):  # else building the table takes longer
            encoded = column.dictionary_encode(null_encoding="encode")
            if known is None and len(encoded.dictionary) <= _MOST_KNOWN:
                self._known[index] = encoded.dictionary
            return _of_dictionary(encoded)
        found = pc.index_in(column, value_set=known)
        if found.null_count:
            missing = found.is_null()
            added = column.filter(missing).dictionary_encode(null_encoding="encode")
            codes = np.array(found.fill_null(0)).astype(np.int64)
            codes[np.asarray(missing)] = np.asarray(added.indices) + len(known)
            known = pa.concat_arrays([known, added.dictionary])
            if len(known) <= _MOST_KNOWN:
                self._known[index] = known
            else:
                del self._known[index]
        else:
            codes = np.asarray(found).astype(np.int64)
        return KeyCodes(codes, len(known), lambda of: [known.take(pa.array(of))])


_PER_KNOWN = 2
_MOST_KNOWN = 1 << 20


def _of_integers(integers: Array, least: int, span: int, kind: pa.DataType) -> KeyCodes:
    """Codes are the distances from the least one: nothing is looked up or sorted."""
    codes = integers if not least and integers.dtype == np.int64 else np.subtract(integers, least, dtype=np.int64)

    def keys(of: Int64Array) -> list[pa.Array]:
        return [values.from_order_keys(of + least, kind, None, np.zeros(len(of), dtype=bool))]

    return KeyCodes(codes, span, keys)


def _of_dictionary(encoded: pa.DictionaryArray) -> KeyCodes:
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return KeyCodes(codes, len(encoded.dictionary), lambda of: [encoded.dictionary.take(pa.array(of))])


def encode(columns: Sequence[pa.Array], length: int) -> tuple[Int64Array, Int64Array]:
    """Dense codes of the distinct keys, and the row where each first appears.

    `columns` must be normalised. Without columns, all rows have the same key.
    """
    if not columns or not length:
        return np.zeros(length, dtype=np.int64), np.zeros(min(length, 1), dtype=np.int64)
    coded = Encoder().encode(columns, length).dense()
    return coded.codes, _first_rows(coded.codes, coded.count)


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
