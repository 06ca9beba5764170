"""Compares two results row by row and column by column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Array
from muntin.demo.queries import MEASURES

ROUNDING = 1e-12
"""Relative tolerance: floating-point sums depend on the order of their terms, so means differ in the last digits."""


@dataclass(frozen=True)
class Comparison:
    rows: int
    """Rows of Muntin's result."""
    other_rows: int
    same: int
    """Rows that both results have, with equal values."""

    @property
    def agrees(self) -> bool:
        return self.rows == self.other_rows == self.same


def in_order(results: pa.Table) -> pa.Table:
    """The columns that both results have, sorted by window and airport."""
    flat = {f"window_{edge}": pc.struct_field(results["window"], edge) for edge in ("start", "end")}
    flat |= {name: results[name] for name in ("origin", *MEASURES)}
    return pa.table(flat).sort_by([("window_start", "ascending"), ("origin", "ascending")])


def compare(ours: pa.Table, theirs: pa.Table) -> Comparison:
    """Compare two tables from `in_order`. Tables with different numbers of rows have no rows in common."""
    if ours.num_rows != theirs.num_rows:
        return Comparison(ours.num_rows, theirs.num_rows, same=0)
    equal = np.ones(ours.num_rows, dtype=bool)
    for name in ours.column_names:
        equal &= _equal(ours[name].combine_chunks(), theirs[name].combine_chunks())
    return Comparison(ours.num_rows, theirs.num_rows, int(equal.sum()))


def _equal(left: pa.Array, right: pa.Array) -> Array:
    if pa.types.is_floating(left.type):
        a, b = (np.asarray(column.fill_null(np.nan)) for column in (left, right))
        return np.asarray(np.isclose(a, b, rtol=ROUNDING, atol=0, equal_nan=True))
    both_null = pc.and_(left.is_null(), right.is_null())
    return np.asarray(pc.or_(pc.fill_null(pc.equal(left, right), False), both_null))
