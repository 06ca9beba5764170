"""Digests of answers: 64 bits per row, so that answers can be compared with those that were last emitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Int64Array, UInt64Array
from muntin.panes.keys import hashes, mix
from muntin.partials.values import is_fixed, is_ranked


def digests(columns: Sequence[pa.Array], length: int) -> Int64Array:
    """The digest of every row. Values that are equal in Spark have equal digests: NaN and NaN, 0.0 and -0.0."""
    return hashes([_hashable(column) for column in columns], length).view(np.int64)


def _hashable(column: pa.Array) -> pa.Array:
    """The column, with everything but plain values replaced by its digest."""
    kind = column.type
    if is_fixed(kind) or is_ranked(kind) or pa.types.is_null(kind):
        return column
    if pa.types.is_struct(kind):
        parts = [_hashable(part) for part in column.flatten()]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(parts, names=[str(i) for i in range(len(parts))], mask=mask)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lists = _of_lists(column)
        return pa.array(lists.view(np.int64), mask=np.asarray(column.is_null()))
    return pa.array([repr(value) for value in column.to_pylist()], pa.string())


def _of_lists(column: pa.Array) -> UInt64Array:
    """A hash of the items of every list, and of their order."""
    lengths = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    items = pc.list_flatten(column)
    ends = np.cumsum(lengths)
    position = np.arange(len(items)) - np.repeat(ends - lengths, lengths)
    with np.errstate(over="ignore"):
        terms = mix(digests([items], len(items)).view(np.uint64) + mix(position.astype(np.uint64)))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        return mix(sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64))
