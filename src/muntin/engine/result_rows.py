"""Rows of results by their windows and keys."""

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
    """Which of the query's windows each row is of."""
    if len(plan.windows) == 1:
        return np.zeros(batch.num_rows, dtype=np.int64)
    titles = pa.array([window.title for window in plan.windows])
    return np.asarray(pc.index_in(batch.column("window_name"), value_set=titles)).astype(np.int64)


def tie_order(columns: Iterable[pa.Array], length: int) -> Int64Array:
    """The place of each row in the order of its keys, which are of one form where they are equal."""
    parts = [part for column in columns for part in _key_parts(normalised(column))]
    place = np.arange(length)
    if parts:
        place[stable_order(*reversed(parts))] = np.arange(length)
    return place


def _key_parts(column: pa.Array) -> list[Int64Array]:
    """Integers that sort as the values do, the first of them first; nulls come before everything else."""
    kind = column.type
    if pa.types.is_null(kind):
        return []
    present = [np.asarray(column.is_valid()).astype(np.int64)] if column.null_count else []
    if pa.types.is_struct(kind):
        return [*present, *(part for field in column.flatten() for part in _key_parts(field))]
    found = values.fixed_order_keys(column) if values.is_fixed(kind) else values.ranked(column)[0]
    # What stands for a null is arbitrary, and must not tell nulls apart.
    return [*present, np.where(present[0] > 0, found, 0) if present else found]
