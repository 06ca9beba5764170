"""Exact counts of distinct values.

A tuple counts if no earlier tuple of the window has the same value: its predecessor, the last equal value before it,
lies before the window. The answer is the number of tuples whose predecessor lies before the begin of the window. This
is a range count, which a wavelet matrix of the predecessors answers for all windows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.holistic.contents import Selection, WindowContents
from muntin.holistic.function import HolisticFunction
from muntin.tree.wavelet import WaveletMatrix


@dataclass(frozen=True)
class DistinctCount(HolisticFunction):
    others: tuple[str, ...] = ()
    """The other columns, where combinations of several columns are counted."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, *self.others)

    def compute(self, contents: WindowContents) -> pa.Array:
        selected = (
            contents.selected_together(self.columns, self.where)
            if self.others
            else contents.selected(self.column, self.where)
        )
        count = np.zeros(len(selected.sizes), dtype=np.int64)
        windows = np.flatnonzero(selected.sizes)
        if len(windows):
            predecessor = predecessors(selected)
            begin, end = selected.begin[windows], selected.end[windows]
            matrix = WaveletMatrix(predecessor, int(predecessor.max()) + 1)
            count[windows] = matrix.below(begin, end, selected.position[begin] + 1)
        return pa.array(count)


def predecessors(selected: Selection) -> Int64Array:
    """For every tuple, one more than the position of its predecessor within the key; 0 if it has none."""
    order = selected.by_value
    same = (np.diff(selected.order_keys[order]) == 0) & (np.diff(selected.key[order]) == 0)
    positions = np.zeros(len(order), dtype=np.int64)
    positions[order[1:][same]] = selected.position[order[:-1][same]] + 1
    return positions
