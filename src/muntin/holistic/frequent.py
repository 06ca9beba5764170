"""The most frequent values: `mode` and `top_k`.

Windows of one model begin and end in the same order. So the windows that contain an occurrence form a range, and so do
those in which it is the first occurrence of its value. The count of the value in such a window is the distance from
this occurrence to the last one before the end of the window, so overlapping windows do not count the value again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array, expand, positions_in_runs, run_numbers, run_starts, stable_order
from muntin.holistic.contents import Selection, WindowContents
from muntin.holistic.function import HolisticFunction, lists, spread
from muntin.holistic.weighted import slabs

_NONE: Int64Array = np.zeros(0, dtype=np.int64)
MOST_COUNTS = 1 << 22
"""Counts of (window, value) that are in memory at once; bounds the memory of an evaluation."""


@dataclass(frozen=True)
class Frequencies:
    """Counts of values in windows, sorted by window, descending count and value."""

    window: Int64Array
    tuple: Int64Array
    """A tuple with the value."""
    count: Int64Array


@dataclass(frozen=True)
class Mode(HolisticFunction):
    takes_weights: ClassVar[bool] = True

    def compute(self, contents: WindowContents) -> pa.Array:
        selected = contents.selected(self.column, self.where)
        frequencies = most_frequent(selected, 1)
        return spread(selected.column.take(pa.array(frequencies.tuple)), frequencies.window, len(selected.sizes))


@dataclass(frozen=True)
class TopK(HolisticFunction):
    k: int

    takes_weights: ClassVar[bool] = True

    def compute(self, contents: WindowContents) -> pa.Array:
        selected = contents.selected(self.column, self.where)
        frequencies = most_frequent(selected, self.k)
        items = selected.column.take(pa.array(frequencies.tuple))
        pairs = pa.StructArray.from_arrays([items, pa.array(frequencies.count)], names=["item", "count"])
        return lists(np.searchsorted(frequencies.window, np.arange(len(selected.sizes) + 1)), pairs)


def most_frequent(selected: Selection, k: int) -> Frequencies:
    """The k most frequent values of each window; after shedding, a tuple counts with its weight."""
    if selected.weights is not None:
        results = [slab.frequencies(selected, k) for slab in slabs(selected, np.flatnonzero(selected.sizes))]
        window, row, weight = (
            (np.concatenate(parts) for parts in zip(*results, strict=True)) if results else [_NONE] * 3
        )
        return Frequencies(window, row, np.rint(weight).astype(np.int64))
    order = np.lexsort((selected.end, selected.begin))
    parts = list(_counted(selected, selected.begin[order], selected.end[order], k))
    window, row, count = (
        np.concatenate([getattr(part, name) for part in parts]) if parts else np.zeros(0, dtype=np.int64)
        for name in ("window", "tuple", "count")
    )
    window = order[window]
    restored = np.argsort(window, kind="stable")
    return Frequencies(window[restored], row[restored], count[restored])


def _counted(selected: Selection, begin: Int64Array, end: Int64Array, k: int) -> Iterator[Frequencies]:
    """The same for windows sorted by `begin` and `end`."""
    rows = stable_order(selected.order_keys)
    starts = run_starts(selected.order_keys[rows])
    run = run_numbers(starts, len(rows))
    # Value and position packed into one sorted integer: a binary search finds the occurrences before a position.
    run_and_row = run * (len(rows) + 1) + rows
    first = np.searchsorted(end, rows, side="right")
    last = np.searchsorted(begin, rows, side="right") - 1
    same_value = run[1:] == run[:-1]
    np.maximum(first[1:], last[:-1] + 1, out=first[1:], where=same_value)
    for low, high in _slabs(first, last, len(begin)):
        lower = np.maximum(first, low)
        window, occurrence = expand(lower, np.maximum(np.minimum(last, high - 1) - lower + 1, 0))
        stop = np.searchsorted(run_and_row, run[occurrence] * (len(rows) + 1) + end[window])
        count = stop - occurrence
        by_count = np.lexsort((run[occurrence], -count, window))
        by_count = by_count[positions_in_runs(run_starts(window[by_count]), len(window)) < k]
        yield Frequencies(window[by_count], rows[occurrence[by_count]], count[by_count])


def _slabs(first: Int64Array, last: Int64Array, windows: int) -> Iterator[tuple[int, int]]:
    """Ranges of windows with at most `MOST_COUNTS` values in total, or a single window."""
    enters = first <= last
    change = np.bincount(first[enters], minlength=windows + 1) - np.bincount(last[enters] + 1, minlength=windows + 1)
    values_before = np.append(0, np.cumsum(np.cumsum(change)[:windows]))
    low = 0
    while low < windows:
        high = int(np.searchsorted(values_before, values_before[low] + MOST_COUNTS, side="right")) - 1
        high = min(max(high, low + 1), windows)
        yield low, high
        low = high
