"""Windows and keys of rows of results."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Int64Array, stable_order
from muntin.engine.plan import Plan
from muntin.panes.keys import normalised
from muntin.partials import values


def bounds(batch: pa.RecordBatch) -> tuple[Int64Array, Int64Array]:
    """The start and the end of each row's window."""
    start, end = (np.asarray(edge.cast(pa.int64())) for edge in batch.column("window").flatten())
    return start, end


def models(plan: Plan, batch: pa.RecordBatch) -> Int64Array:
    """The index of each row's window among the query's windows."""
    if len(plan.windows) == 1:
        return np.zeros(batch.num_rows, dtype=np.int64)
    titles = pa.array([window.title for window in plan.windows])
    return np.asarray(pc.index_in(batch.column("window_name"), value_set=titles)).astype(np.int64)


def tie_order(columns: Iterable[pa.Array], length: int) -> Int64Array:
    """The rank of each row by its keys, which are normalised first."""
    parts = [part for column in columns for part in _key_parts(normalised(column))]
    ranks = np.arange(length)
    if parts:
        ranks[stable_order(*reversed(parts))] = np.arange(length)
    return ranks


def _key_parts(column: pa.Array) -> list[Int64Array]:
    """Integer columns that sort like the values, most significant first. Nulls come first."""
    kind = column.type
    if pa.types.is_null(kind):
        return []
    present = [np.asarray(column.is_valid()).astype(np.int64)] if column.null_count else []
    if pa.types.is_struct(kind):
        return [*present, *(part for field in column.flatten() for part in _key_parts(field))]
    sort_keys = values.fixed_order_keys(column) if values.is_fixed(kind) else values.ranked(column)[0]
    # The integer of a null is arbitrary: set it to 0, so that nulls are equal.
    return [*present, np.where(present[0] > 0, sort_keys, 0) if present else sort_keys]
