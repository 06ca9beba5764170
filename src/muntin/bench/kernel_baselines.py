"""Other ways to sliding sums on one core, short and vectorised: buckets, FlatFAT and slices.

All take tuples as arrays, in any order: event times in microseconds, dense keys from 0 and values. All return the same:
the totals of the windows `first` to `first + len - 1` by key, where window `w` is `[w * slide, w * slide + size)`. None
keeps a state from batch to batch, none packs panes to be sent, and none knows of late tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from muntin.arrays import Float64Array, Int64Array


@dataclass(frozen=True)
class Tuples:
    times: Int64Array
    keys: Int64Array
    values: Float64Array
    key_count: int

    def windows(self, size: int, slide: int) -> tuple[int, int]:
        """The first window with a tuple, and how many there are up to the last one."""
        first = (int(self.times.min()) - size) // slide + 1
        return first, int(self.times.max()) // slide - first + 1


def buckets(tuples: Tuples, size: int, slide: int) -> Float64Array:
    """A bucket per window: every tuple is added to each of its windows."""
    first, count = tuples.windows(size, slide)
    totals = np.zeros(count * tuples.key_count)
    cells = (tuples.times // slide - first) * tuples.key_count + tuples.keys
    for step in range(size // slide):
        np.add.at(totals, cells - step * tuples.key_count, tuples.values)
    return totals.reshape(count, tuples.key_count)


def flat_fat(tuples: Tuples, size: int, slide: int) -> Float64Array:
    """FlatFAT (Tangwongsan 2015): a tree over the tuples, and a walk of it for every window of a key."""
    first, count = tuples.windows(size, slide)
    order = np.lexsort((tuples.times, tuples.keys))
    leaves = 1 << max(len(order) - 1, 1).bit_length()
    tree = np.zeros(2 * leaves)
    tree[leaves : leaves + len(order)] = tuples.values[order]
    level = leaves
    while level > 1:
        tree[level // 2 : level] = tree[level : 2 * level : 2] + tree[level + 1 : 2 * level : 2]
        level //= 2
    # Times within a key as one ascending number, so that one search finds the ranges of all windows.
    base = first * slide
    span = count * slide + size
    placed = tuples.keys[order] * span + tuples.times[order] - base
    begins = (np.arange(count)[:, None] * slide + np.arange(tuples.key_count)[None, :] * span).reshape(-1)
    left, right = np.searchsorted(placed, begins) + leaves, np.searchsorted(placed, begins + size) + leaves
    totals = np.zeros(len(begins))
    while len(active := np.flatnonzero(left < right)):
        for side, step in ((left, 0), (right, -1)):
            odd = active[side[active] & 1 == 1]
            totals[odd] += tree[side[odd] + step]
        left, right = (left + 1) >> 1, right >> 1
    return totals.reshape(count, tuples.key_count)


def slices(tuples: Tuples, size: int, slide: int) -> Float64Array:
    """Slicing as in Scotty, lazily: every tuple is added to its slice, and every window combines its slices."""
    first, count = tuples.windows(size, slide)
    per_window = size // slide
    cells = (tuples.times // slide - first) * tuples.key_count + tuples.keys
    length = (count + per_window) * tuples.key_count
    sums = np.bincount(cells, weights=tuples.values, minlength=length).reshape(-1, tuples.key_count)
    totals = np.zeros((count, tuples.key_count))
    for step in range(per_window):
        totals += sums[step : step + count]
    return totals


BUCKETS = "bucket per window"
BASELINES: Mapping[str, Callable[[Tuples, int, int], Float64Array]] = {
    BUCKETS: buckets,
    "FlatFAT": flat_fat,
    "slices": slices,
}
