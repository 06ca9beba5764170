"""The most frequent values: `mode` and `top_k`.

A value enters a window with its first occurrence there. Windows of one model begin and end in the same order, so an
occurrence is in a range of windows, and those that it is the first in are a range, too. How often the value
occurs in the window is then the distance to its last occurrence before the window's end: overlapping windows never
count a value twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array, expand, positions_in_runs, run_numbers, run_starts, stable_order
from muntin.holistic.contents import Chosen, Held
from muntin.holistic.function import Whole, lists, spread
from muntin.holistic.weighted import slabs

_NONE: Int64Array = np.zeros(0, dtype=np.int64)
MOST_COUNTS = 1 << 22
"""How many counts of values in windows there are at once."""


@dataclass(frozen=True)
class Frequencies:
    """How often values occur in windows: by window, most often first, and the least of those that occur as often."""

    window: Int64Array
    tuple: Int64Array
    """A tuple that has the value."""
    count: Int64Array


@dataclass(frozen=True)
class Mode(Whole):
    of_weighted: ClassVar[bool] = True

    def compute(self, held: Held) -> pa.Array:
        chosen = held.chosen(self.column, self.where)
        most = most_frequent(chosen, 1)
        return spread(chosen.column.take(pa.array(most.tuple)), most.window, len(chosen.sizes))


@dataclass(frozen=True)
class TopK(Whole):
    k: int

    of_weighted: ClassVar[bool] = True

    def compute(self, held: Held) -> pa.Array:
        chosen = held.chosen(self.column, self.where)
        most = most_frequent(chosen, self.k)
        items = chosen.column.take(pa.array(most.tuple))
        pairs = pa.StructArray.from_arrays([items, pa.array(most.count)], names=["item", "count"])
        return lists(np.searchsorted(most.window, np.arange(len(chosen.sizes) + 1)), pairs)


def most_frequent(chosen: Chosen, k: int) -> Frequencies:
    """The k most frequent values of each window; tuples that stand for others count as often."""
    if chosen.weights is not None:
        found = [slab.frequencies(chosen, k) for slab in slabs(chosen, np.flatnonzero(chosen.sizes))]
        window, held, weight = (np.concatenate(parts) for parts in zip(*found, strict=True)) if found else [_NONE] * 3
        return Frequencies(window, held, np.rint(weight).astype(np.int64))
    order = np.lexsort((chosen.end, chosen.begin))
    parts = list(_counted(chosen, chosen.begin[order], chosen.end[order], k))
    window, held, count = (
        np.concatenate([getattr(part, name) for part in parts]) if parts else np.zeros(0, dtype=np.int64)
        for name in ("window", "tuple", "count")
    )
    window = order[window]
    back = np.argsort(window, kind="stable")
    return Frequencies(window[back], held[back], count[back])


def _counted(chosen: Chosen, begin: Int64Array, end: Int64Array, k: int) -> Iterator[Frequencies]:
    """`begin` and `end` both grow along the windows."""
    held = stable_order(chosen.order_keys)
    starts = run_starts(chosen.order_keys[held])
    run_of_each = run_numbers(starts, len(held))
    # Value and position in one integer, in order: the occurrences of a value before some position are a search away.
    places = run_of_each * (len(held) + 1) + held
    first = np.searchsorted(end, held, side="right")
    last = np.searchsorted(begin, held, side="right") - 1
    same_value = run_of_each[1:] == run_of_each[:-1]
    np.maximum(first[1:], last[:-1] + 1, out=first[1:], where=same_value)
    for low, high in _slabs(first, last, len(begin)):
        lower = np.maximum(first, low)
        at, source = expand(lower, np.maximum(np.minimum(last, high - 1) - lower + 1, 0))
        behind = np.searchsorted(places, run_of_each[source] * (len(held) + 1) + end[at])
        count = behind - source
        by_count = np.lexsort((run_of_each[source], -count, at))
        by_count = by_count[positions_in_runs(run_starts(at[by_count]), len(at)) < k]
        yield Frequencies(at[by_count], held[source[by_count]], count[by_count])


def _slabs(first: Int64Array, last: Int64Array, windows: int) -> Iterator[tuple[int, int]]:
    """Ranges of windows with no more than `MOST_COUNTS` values together, or a single window."""
    enters = first <= last
    change = np.bincount(first[enters], minlength=windows + 1) - np.bincount(last[enters] + 1, minlength=windows + 1)
    before = np.append(0, np.cumsum(np.cumsum(change)[:windows]))
    low = 0
    while low < windows:
        high = int(np.searchsorted(before, before[low] + MOST_COUNTS, side="right")) - 1
        high = min(max(high, low + 1), windows)
        yield low, high
        low = high
