"""Exact counts of distinct values.

A value of a window is new if the one before it that is equal, if any, lies before the window. So the answer is how many
tuples of the window have their predecessor before its begin: a range count, which the wavelet matrix of the
predecessors answers for all windows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.holistic.contents import Chosen, Held
from muntin.holistic.function import Whole
from muntin.tree.wavelet import WaveletMatrix


@dataclass(frozen=True)
class DistinctCount(Whole):
    others: tuple[str, ...] = ()
    """The other columns, if the values are combinations of several."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, *self.others)

    def compute(self, held: Held) -> pa.Array:
        chosen = held.chosen_together(self.columns, self.where) if self.others else held.chosen(self.column, self.where)
        count = np.zeros(len(chosen.sizes), dtype=np.int64)
        windows = np.flatnonzero(chosen.sizes)
        if len(windows):
            before = predecessors(chosen)
            begin, end = chosen.begin[windows], chosen.end[windows]
            matrix = WaveletMatrix(before, int(before.max()) + 1)
            count[windows] = matrix.below(begin, end, chosen.position[begin] + 1)
        return pa.array(count)


def predecessors(chosen: Chosen) -> Int64Array:
    """Of every tuple, the position within its key behind the last equal value before it; 0 if there is none."""
    order = chosen.by_value
    same = (np.diff(chosen.order_keys[order]) == 0) & (np.diff(chosen.key[order]) == 0)
    found = np.zeros(len(order), dtype=np.int64)
    found[order[1:][same]] = chosen.position[order[:-1][same]] + 1
    return found
