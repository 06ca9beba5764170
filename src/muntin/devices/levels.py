"""The kernels of the tree on a device: init level, update level, and windows (SPRINGALD, figures 9 to 11).

A tree is one flat array per column of the state, of which the first says where there is a node: level by level, node by
node, with a place for each lane, as in `muntin.tree.ring`. Absent nodes are the paper's neutral element.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from muntin.arrays import Combine
from muntin.devices.shim import Arrays
from muntin.tree.ring import RingShape

Columns: TypeAlias = list[Any]
"""Arrays of the device."""


def combined(arrays: Arrays, combine: Combine, left: Columns, right: Columns) -> Columns:
    """The states of both sides together. Where only one side has one, that is the result."""
    xp = arrays.xp
    both = left[0] & right[0]
    with np.errstate(all="ignore"):  # what is combined where a side is absent is not used
        together = combine(tuple(left[1:]), tuple(right[1:]))
    columns = zip(left[1:], right[1:], together, strict=True)
    return [left[0] | right[0], *(xp.where(both, c, xp.where(left[0], a, b)) for a, b, c in columns)]


def init_level(arrays: Arrays, columns: Columns, shape: RingShape, width: int, level: int, combine: Combine) -> None:
    """All nodes of a level above the leaves, from those of the level below."""
    below, above = (int(offset) * width for offset in shape.offsets[level - 1 : level + 1])
    count = shape.capacity >> level
    of_level = [arrays.xp.reshape(column[below:above], (count, 2, width)) for column in columns]
    sides = ([arrays.xp.reshape(column[:, side, :], (count * width,)) for column in of_level] for side in (0, 1))
    for column, nodes in zip(columns, combined(arrays, combine, *sides), strict=True):
        column[above : above + count * width] = nodes


def update_level(
    arrays: Arrays, columns: Columns, shape: RingShape, width: int, level: int, cells: Any, combine: Combine
) -> Columns:
    """Some nodes of a level above the leaves. `cells` are nodes within the level times `width`, plus their lanes."""
    below, above = (int(offset) * width for offset in shape.offsets[level - 1 : level + 1])
    left = below + cells // width * (2 * width) + cells % width
    sides = ([arrays.xp.take(column, side) for column in columns] for side in (left, left + width))
    nodes = combined(arrays, combine, *sides)
    return [arrays.put(column, above + cells, values) for column, values in zip(columns, nodes, strict=True)]


def window(
    arrays: Arrays, columns: Columns, shape: RingShape, width: int, begin: int, end: int, combine: Combine
) -> Columns:
    """The panes `[begin, end)` of all lanes, combined in order: nothing is looked up."""
    results = [arrays.xp.zeros_like(column[:width]) for column in columns]
    for number, node in enumerate(shape.walk(begin, end)):
        step = [column[node * width : (node + 1) * width] for column in columns]
        results = combined(arrays, combine, results, step) if number else step
    return results


def windows(
    arrays: Arrays,
    columns: Columns,
    shape: RingShape,
    width: int,
    lane: Any,
    begin: Any,
    end: Any,
    combine: Combine,
    widest: int,
) -> Columns:
    """The panes `[begin[q], end[q])` of each lane, combined in order, for all queries, the longest of `widest` panes.

    A range takes the nodes of growing levels, then those of the highest, then those of falling levels: the same nodes,
    in the same order, as if it took the widest one again and again.
    """
    xp, position = arrays.xp, begin
    results = [xp.zeros_like(xp.take(column, lane)) for column in columns]
    top = min(shape.top, widest.bit_length() - 1) if widest else -1
    rising = [(level, True) for level in range(top)]
    falling = [(level, False) for level in reversed(range(top))]
    for level, rises in [*rising, *[(top, False)] * (widest >> max(top, 0)), *falling]:
        takes = position + (1 << level) <= end
        if rises:
            takes = takes & ((position >> level) & 1 == 1)
        node = int(shape.offsets[level]) + (position >> level) % (shape.capacity >> level)
        step = [xp.take(column, node * width + lane) for column in columns]
        results = combined(arrays, combine, results, [step[0] & takes, *step[1:]])
        position = position + xp.astype(takes, xp.int64) * (1 << level)
    return results
