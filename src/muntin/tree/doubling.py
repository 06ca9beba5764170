"""Very many ranges of leaves at once, as when all windows of a table are answered together.

Level `l` combines the leaves `[i, i + 2**l)` of every leaf `i`, and replaces the level below it. The length of a range
is a sum of powers of two. The range takes one node for each, the shortest first, so that leaves are combined in order.
Neighbouring ranges read neighbouring nodes, while those of a tree are far apart. A level costs a combination per leaf,
so this pays if there are about as many ranges as leaves.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import BoolArray, Combine, Int64Array, State


def doubled_ranges(leaves: State, combine: Combine, begin: Int64Array, end: Int64Array) -> State:
    """The combination of the leaves `[begin[q], end[q])`, in order, for every query `q`. No range may be empty."""
    lengths, position = end - begin, begin
    results = tuple(np.empty(len(begin), dtype=column.dtype) for column in leaves)
    nodes, span, longest = leaves, 1, int(lengths.max(initial=0))
    while True:
        takes = (lengths & span) != 0
        begun = (lengths & (span - 1)) != 0
        _take(results, nodes, combine, position, takes & ~begun, takes & begun)
        if 2 * span > longest:
            return results
        position = position + np.where(takes, span, 0)
        # Sums over two keys may overflow or be inf - inf: such nodes are never read.
        with np.errstate(all="ignore"):
            nodes = combine(tuple(column[:-span] for column in nodes), tuple(column[span:] for column in nodes))
        span *= 2


def _take(
    results: State, nodes: State, combine: Combine, position: Int64Array, begins: BoolArray, goes_on: BoolArray
) -> None:
    """Begin some results with the nodes at their positions, and combine others with them."""
    first = np.flatnonzero(begins)
    for column, node in zip(results, nodes, strict=True):
        column[first] = node[position[first]]
    later = np.flatnonzero(goes_on)
    if len(later):
        at = position[later]
        combined = combine(tuple(column[later] for column in results), tuple(column[at] for column in nodes))
        for column, update in zip(results, combined, strict=True):
            column[later] = update
