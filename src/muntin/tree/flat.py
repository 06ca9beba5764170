"""The flat tree: one pointer-less, level-by-level array for all the keys of a shard.

SPRINGALD (Mencagli 2024, section IV-B) has one batched pane aggregation tree, B-PAT, per key and one leaf per pane.
Here the leaves of all keys are in one array, sorted by (key, pane), with only the panes that are present. A window of a
key is then a range of leaves, whose length may differ from key to key. Inner nodes that span two keys are computed but
never read: no range extends over two keys.

Level 0 is the leaves; node `i` of level `l` combines the leaves `[i * 2**l, (i + 1) * 2**l)`. The levels are
concatenated in one flat array per state column (figure 8 of the paper).
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Array, Combine, Int64Array, State


class FlatTree:
    """Answers ranges of leaves in O(log longest range) vectorised steps, whatever their number."""

    def __init__(self, leaves: State, combine: Combine, longest: int) -> None:
        """`longest` is the longest range that will be queried: levels above its logarithm are never read."""
        self._combine = combine
        levels = [leaves]
        offsets = [0]
        size = len(leaves[0])
        span = 2
        while span <= min(longest, len(leaves[0])):
            below = levels[-1]
            pairs = len(below[0]) // 2
            left = tuple(column[0 : 2 * pairs : 2] for column in below)
            right = tuple(column[1 : 2 * pairs : 2] for column in below)
            # Sums over two keys may overflow or be inf - inf: such nodes are never read.
            with np.errstate(all="ignore"):
                levels.append(combine(left, right))
            offsets.append(size)
            size += pairs
            span *= 2
        self._offsets = np.array(offsets, dtype=np.int64)
        self._nodes: State = (
            leaves if len(levels) == 1 else tuple(np.concatenate(columns) for columns in zip(*levels, strict=True))
        )

    def ranges(self, begin: Int64Array, end: Int64Array) -> State:
        """The combination of the leaves `[begin[q], end[q])`, in order, for every query `q`. No range may be empty.

        As in SPRINGALD's figure 11, each query repeatedly takes the largest aligned node that begins at its position
        and does not extend past its end, and continues behind that node. All queries advance together.
        """
        position = begin.astype(np.int64)
        node, span = self._widest_nodes(position, end)
        results: list[Array] = [column[node] for column in self._nodes]
        position += span
        active = np.flatnonzero(position < end)
        while len(active):
            node, span = self._widest_nodes(position[active], end[active])
            step = self._combine(
                tuple(column[active] for column in results), tuple(column[node] for column in self._nodes)
            )
            for column, update in zip(results, step, strict=True):
                column[active] = update
            position[active] += span
            active = active[position[active] < end[active]]
        return tuple(results)

    def _widest_nodes(self, position: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The flat index and the span of the widest node that starts at each position and stays within the range."""
        level = widest_levels(position, end, len(self._offsets) - 1)
        return self._offsets[level] + (position >> level), np.left_shift(1, level)


def widest_levels(position: Int64Array, end: Int64Array, top: int) -> Int64Array:
    """The level of the widest node, up to level `top`, that starts at each position and stays within the range."""
    fits = _floor_log2(end - position)
    aligned = np.where(position == 0, fits, _floor_log2(position & -position))
    return np.minimum(np.minimum(fits, aligned), top)


def _floor_log2(values: Int64Array) -> Int64Array:
    # frexp is exact for all leaf counts that fit in memory, which are far below 2**52.
    return np.frexp(np.maximum(values, 1).astype(np.float64))[1].astype(np.int64) - 1
