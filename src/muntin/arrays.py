"""Array types, and the two small array idioms that several modules need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Float64Array: TypeAlias = npt.NDArray[np.float64]
Int64Array: TypeAlias = npt.NDArray[np.int64]
UInt64Array: TypeAlias = npt.NDArray[np.uint64]

State: TypeAlias = tuple[Array, ...]
"""Partial results of one aggregate, one array per field; position i of all arrays is one partial."""

Combine: TypeAlias = Callable[[State, State], State]


def run_starts(*columns: Array) -> Int64Array:
    """Where a new run of equal values begins, in columns that are sorted together."""
    changed = np.ones(len(columns[0]), dtype=bool)
    if len(changed) > 1:
        np.not_equal(columns[0][1:], columns[0][:-1], out=changed[1:])
        for column in columns[1:]:
            changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def fold_runs(state: State, starts: Int64Array, combine: Combine) -> State:
    """Combine every run of neighbours into one partial, in order, in O(log longest run) vectorised rounds.

    Run `r` is `[starts[r], starts[r + 1])`. Each round combines neighbours two by two, so `combine` may be any
    associative function; it need not be commutative.
    """
    lengths = np.diff(starts, append=len(state[0])) if len(starts) else np.zeros(0, np.int64)
    while len(lengths) and lengths.max() > 1:
        ends = np.cumsum(lengths)
        begins = ends - lengths
        position = np.arange(ends[-1]) - np.repeat(begins, lengths)
        left = np.flatnonzero(position % 2 == 0)
        paired = position[left] + 1 < np.repeat(lengths, lengths)[left]
        folded = tuple(column[left] for column in state)
        both = left[paired]
        combined = combine(tuple(column[both] for column in state), tuple(column[both + 1] for column in state))
        for target, column in zip(folded, combined, strict=True):
            target[paired] = column
        state = folded
        lengths = (lengths + 1) // 2
    return state
