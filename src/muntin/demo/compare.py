"""Are the two answers the same? Row by row, column by column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Array
from muntin.demo.queries import MEASURES

ROUNDING = 1e-12
"""Sums of floating numbers depend on the order of the terms, so means may differ in the last digits."""


@dataclass(frozen=True)
class Comparison:
    rows: int
    """Rows of Muntin's answer."""
    other_rows: int
    same: int
    """Rows that are in both, with the same values."""

    @property
    def agrees(self) -> bool:
        return self.rows == self.other_rows == self.same


def in_order(results: pa.Table) -> pa.Table:
    """The columns that both answers have, by window and airport."""
    flat = {f"window_{edge}": pc.struct_field(results["window"], edge) for edge in ("start", "end")}
    flat |= {name: results[name] for name in ("origin", *MEASURES)}
    return pa.table(flat).sort_by([("window_start", "ascending"), ("origin", "ascending")])


def compare(ours: pa.Table, theirs: pa.Table) -> Comparison:
    """Both in order. Where the numbers of rows differ, the answers are different and nothing is matched up."""
    if ours.num_rows != theirs.num_rows:
        return Comparison(ours.num_rows, theirs.num_rows, same=0)
    same = np.ones(ours.num_rows, dtype=bool)
    for name in ours.column_names:
        same &= _equal(ours[name].combine_chunks(), theirs[name].combine_chunks())
    return Comparison(ours.num_rows, theirs.num_rows, int(same.sum()))


def _equal(left: pa.Array, right: pa.Array) -> Array:
    if pa.types.is_floating(left.type):
        a, b = (np.asarray(each.fill_null(np.nan)) for each in (left, right))
        return np.asarray(np.isclose(a, b, rtol=ROUNDING, atol=0, equal_nan=True))
    both_null = pc.and_(left.is_null(), right.is_null())
    return np.asarray(pc.or_(pc.fill_null(pc.equal(left, right), False), both_null))
