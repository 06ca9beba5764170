"""Array types, and the small array idioms that several modules need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

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


def count_true(mask: Array) -> int:
    """As `mask.sum()`, in a fraction of the time where there are few elements, as with one window at a time."""
    return int(np.count_nonzero(mask))


def all_true(mask: Array) -> bool:
    return count_true(mask) == mask.size


def any_true(mask: Array) -> bool:
    return count_true(mask) > 0


def are_one(values: Array) -> bool:
    """Whether all values are the same, of which there is at least one."""
    return bool(values[0] == values[-1]) and all_true(values == values[0])


def run_starts(*columns: Array) -> Int64Array:
    """Where a new run of equal values begins, in columns that are sorted together."""
    changed = np.ones(len(columns[0]), dtype=bool)
    if len(changed) > 1:
        np.not_equal(columns[0][1:], columns[0][:-1], out=changed[1:])
        for column in columns[1:]:
            changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


_FEW_ELEMENTS = 1024
_SHORT, _SHORT_ON_AVERAGE = 8, 4
"""Of many runs that are as short as that, `ufunc.reduceat` takes longer to find each than to add it up."""
_MOSTLY_ONE = 1.5
"""With so few elements to a run, on average, those behind the first are added to it fastest one by one."""


@dataclass(frozen=True)
class Runs:
    """Runs of neighbours that are to become one each: where they begin, and how many elements they have."""

    starts: Int64Array
    lengths: Int64Array
    apart: bool = False
    """Whether they may be in any order, with other elements between them."""

    @classmethod
    def of(cls, starts: Int64Array, length: int) -> Runs:
        """Of so many elements, all of them."""
        return cls(starts, np.diff(starts, append=length))

    @classmethod
    def of_lengths(cls, lengths: Int64Array) -> Runs:
        return cls(lengths.cumsum() - lengths, lengths)

    @classmethod
    def between(cls, begin: Int64Array, end: Int64Array) -> Runs:
        """The elements `[begin, end)` of each."""
        return cls(begin, end - begin, apart=True)

    @cached_property
    def size(self) -> int:
        """How many elements they have together."""
        if self.apart or not len(self.starts):
            return int(self.lengths.sum())
        return int(self.starts[-1] + self.lengths[-1])

    @cached_property
    def numbers(self) -> Int64Array:
        """For every element the number of its run."""
        return np.arange(len(self.starts)).repeat(self.lengths)

    def gathered(self, state: State) -> tuple[State, Runs]:
        """Their elements alone, and the runs of those."""
        if not self.apart:
            return state, self
        if len(self.starts) == 1:
            only = slice(int(self.starts[0]), int(self.starts[0] + self.lengths[0]))
            return tuple(column[only] for column in state), self._gathered
        return tuple(column[self._places] for column in state), self._gathered

    @cached_property
    def _gathered(self) -> Runs:
        return Runs.of_lengths(self.lengths)

    @cached_property
    def _places(self) -> Int64Array:
        return spans(self.starts, self.lengths)

    def repeated(self, of_runs: Array) -> Array:
        """For every element what there is for its run."""
        return np.asarray(of_runs.repeat(self.lengths))

    def sums(self, values: Array) -> Array:
        if self._are_short:
            total = values.take(self.starts)
            for run, at in self._further:
                total[run] += values.take(at)
            return total
        (gathered,), runs = self.gathered((values,))
        if _FEW_ELEMENTS < self.size < _SHORT_ON_AVERAGE * len(self.starts):
            if values.dtype == np.float64:
                return np.bincount(runs.numbers, gathered, len(self.starts))
            if values.dtype == np.int64:  # what wraps around in between is undone
                return np.diff(gathered.cumsum().take(runs._last), prepend=0)
        return np.asarray(np.add.reduceat(gathered, runs.starts))

    def sums_of(self, *columns: Float64Array) -> tuple[Float64Array, ...]:
        """The same for several columns: of few elements, all at once."""
        if self.size > _FEW_ELEMENTS:
            return tuple(self.sums(column) for column in columns)
        together = np.array(columns)
        if self.apart:
            together = together.take(self._places, axis=1)
        return tuple(np.add.reduceat(together, self._gathered.starts, axis=1))

    @cached_property
    def _are_short(self) -> bool:
        """Whether what is behind the first elements is added to them. To gather all elements first takes longer."""
        most = _SHORT if self.apart else _MOSTLY_ONE
        return _FEW_ELEMENTS < self.size <= most * len(self.starts) and self._longest <= _SHORT

    @cached_property
    def _last(self) -> Int64Array:
        return self.starts + self.lengths - 1

    @cached_property
    def _further(self) -> list[tuple[Int64Array, Int64Array]]:
        """Which runs have a second element and where that is, the same for the third, and so on."""
        found: list[tuple[Int64Array, Int64Array]] = []
        for nth in range(1, self._longest):
            run = np.flatnonzero(self.lengths > nth)
            found.append((run, self.starts.take(run) + nth))
        return found

    @cached_property
    def _longest(self) -> int:
        return int(self.lengths.max(initial=0))

    def least(self, values: Array) -> Array:
        (gathered,), runs = self.gathered((values,))
        return np.asarray(np.minimum.reduceat(gathered, runs.starts))

    def greatest(self, values: Array) -> Array:
        (gathered,), runs = self.gathered((values,))
        return np.asarray(np.maximum.reduceat(gathered, runs.starts))


def is_sorted(*columns: Array) -> bool:
    """Whether rows are in the order of the first column, equal ones in that of the next, and so on."""
    tied = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    for column in columns:
        if np.any(tied & (column[1:] < column[:-1])):
            return False
        tied &= column[1:] == column[:-1]
    return True


def run_numbers(starts: Int64Array, length: int) -> Int64Array:
    """For every element the number of its run; the runs begin at `starts`, the first of them at 0."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=length))


_LONG_RUNS = 1024
"""So many elements to a run, on average, are copied faster run by run than one by one."""


def chooser(chosen: BoolArray) -> Callable[[Array], Array]:
    """What takes the marked elements out of arrays of this length: a copy of each run of them, if those are long."""
    edges = np.flatnonzero(chosen[1:] != chosen[:-1]) + 1
    if len(edges) * _LONG_RUNS > len(chosen):
        places = np.flatnonzero(chosen)
        return lambda array: array[places]
    bounds = [0, *edges.tolist(), len(chosen)]
    first = 0 if len(chosen) and chosen[0] else 1
    runs = [slice(bounds[i], bounds[i + 1]) for i in range(first, len(bounds) - 1, 2)]
    return lambda array: np.concatenate([array[:0], *(array[run] for run in runs)])


def fold_runs(state: State, runs: Runs, combine: Combine) -> State:
    """Combine every run of neighbours into one partial, in order, in O(log longest run) vectorised rounds.

    Each round combines neighbours two by two, so `combine` may be any associative function; it need not be commutative.
    """
    state, runs = runs.gathered(state)
    lengths = runs.lengths
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


def search(
    values: Array, targets: Array, begin: Int64Array, end: Int64Array, side: Literal["left", "right"] = "left"
) -> Int64Array:
    """`np.searchsorted` of each target within its own range `[begin, end)` of values, which is sorted."""
    low, high = begin.astype(np.int64), end.astype(np.int64)
    open_ranges = np.flatnonzero(low < high)
    while len(open_ranges):
        middle = (low[open_ranges] + high[open_ranges]) >> 1
        found, target = values[middle], targets[open_ranges]
        behind = found < target if side == "left" else found <= target
        low[open_ranges] = np.where(behind, middle + 1, low[open_ranges])
        high[open_ranges] = np.where(behind, high[open_ranges], middle)
        open_ranges = open_ranges[low[open_ranges] < high[open_ranges]]
    return low


_LONG_RUN = 4096


def search_behind(values: Array, targets: Array, starts: Int64Array) -> Int64Array:
    """For each element the first one of its run that is greater than its target; both are sorted within each run.

    Where a run ends before that, the answer is its end.
    """
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    ends = np.append(starts[1:], len(values))
    found = np.zeros(len(values), dtype=np.int64)
    for run in np.flatnonzero(ends - starts >= _LONG_RUN):  # few enough to take one by one
        within = slice(starts[run], ends[run])
        found[within] = starts[run] + np.searchsorted(values[within], targets[within], side="right")
    lengths = ends - starts
    short = np.flatnonzero(np.repeat(lengths < _LONG_RUN, lengths))
    found[short] = search(values, targets[short], short, np.repeat(ends, lengths)[short], side="right")
    return found


_FEW = 1024


def stable_order(*columns: Int64Array) -> Int64Array:
    """`np.lexsort` of integers, the last column first: by digits, each packed with a position into one integer.

    To sort integers is several times as fast as to sort by them.
    """
    length = len(columns[0])
    if length < _FEW:
        return np.lexsort(columns)
    order = np.arange(length)
    position_bits = length.bit_length()
    room = 62 - position_bits
    digit, filled = np.zeros(length, dtype=np.int64), 0
    for column in columns:
        rest = column.view(np.uint64) - np.uint64(int(column.min()) % (1 << 64))
        width = int(rest.max()).bit_length()
        while width:
            taken = min(width, room - filled)
            part = (rest & np.uint64((1 << taken) - 1)).astype(np.int64)
            digit |= part << filled
            rest, width, filled = rest >> np.uint64(taken), width - taken, filled + taken
            if filled == room:
                order = _by_digit(digit, order, position_bits)
                digit, filled = np.zeros(length, dtype=np.int64), 0
    return _by_digit(digit, order, position_bits) if filled else order


def _by_digit(digit: Int64Array, order: Int64Array, position_bits: int) -> Int64Array:
    packed = digit[order] << position_bits | np.arange(len(order))
    packed.sort()
    return np.asarray(order[packed & ((1 << position_bits) - 1)])


def positions_in_runs(starts: Int64Array, length: int) -> Int64Array:
    """For each of `length` elements in runs that begin at `starts`, its position within its run."""
    return np.arange(length) - np.repeat(starts, np.diff(starts, append=length))


def spans(first: Int64Array, count: Int64Array) -> Int64Array:
    """For every i the numbers `first[i] … first[i] + count[i] - 1`, after one another."""
    end: Int64Array = count.cumsum()
    shift: Int64Array = (first - end + count).repeat(count)
    return np.arange(len(shift)) + shift


def expand(first: Int64Array, count: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The same, and the i of each."""
    return spans(first, count), np.arange(len(count)).repeat(count)


def running_max(values: Array, starts: Int64Array) -> Array:
    """The largest value so far within each run; the runs begin at `starts`."""
    if len(starts) < 2:
        return np.asarray(np.maximum.accumulate(values))
    within = np.ones(len(values), dtype=bool)
    within[starts] = False
    if np.all(values[1:][within[1:]] >= values[:-1][within[1:]]):
        return values  # growing already: nothing to do, and most often so
    distinct, rank = np.unique(values, return_inverse=True)
    run = np.cumsum(~within)
    # Ranks of later runs are above all of earlier ones, so that one sweep serves all runs.
    reached = np.maximum.accumulate(run * len(distinct) + rank)
    return np.asarray(distinct[reached - run * len(distinct)])
