"""Array types, and small array functions that several modules need."""

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
"""Partials of one aggregate, one array per field; position i of all arrays is one partial."""

Combine: TypeAlias = Callable[[State, State], State]


def namespace(array: Any) -> Any:
    """The functions of an array's library: NumPy, or that of a device, as the array API standard has them."""
    if isinstance(array, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)


def combine_present(combine: Combine, left: State, right: State) -> State:
    """Combine states whose first column says where there is one. Where only one side has one, that is the result."""
    both = left[0] & right[0]
    if all_true(both):
        return (both, *combine(left[1:], right[1:]))
    columns = tuple(np.where(left[0], a, b) for a, b in zip(left[1:], right[1:], strict=True))
    positions = np.flatnonzero(both)
    if len(positions):
        combined = combine(*(tuple(column[positions] for column in side[1:]) for side in (left, right)))
        for column, update in zip(columns, combined, strict=True):
            column[positions] = update
    return (left[0] | right[0], *columns)


def count_true(mask: Array) -> int:
    """`mask.sum()`, but much faster for short arrays, such as one window at a time."""
    return int(np.count_nonzero(mask))


def all_true(mask: Array) -> bool:
    return count_true(mask) == mask.size


def any_true(mask: Array) -> bool:
    return count_true(mask) > 0


def are_one(values: Array) -> bool:
    """Whether all values are equal. There must be at least one."""
    return bool(values[0] == values[-1]) and all_true(values == values[0])


def run_starts(*columns: Array) -> Int64Array:
    """The positions where a run of equal values begins, in columns that are sorted together."""
    changed = np.ones(len(columns[0]), dtype=bool)
    if len(changed) > 1:
        np.not_equal(columns[0][1:], columns[0][:-1], out=changed[1:])
        for column in columns[1:]:
            changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


_FEW_ELEMENTS = 1024
_SHORT, _SHORT_ON_AVERAGE = 8, 4
"""For many runs this short, `ufunc.reduceat` takes longer to find each run than to add it up."""
_MOSTLY_ONE = 1.5
"""Up to this average length, it is fastest to add the elements behind the first of each run one by one."""


@dataclass(frozen=True)
class Runs:
    """Runs of neighbouring elements, each to be reduced to one: where they begin, and their lengths."""

    starts: Int64Array
    lengths: Int64Array
    apart: bool = False
    """Whether the runs may be in any order, with other elements between them."""

    @classmethod
    def of(cls, starts: Int64Array, length: int) -> Runs:
        """Runs that cover all of `length` elements."""
        return cls(starts, np.diff(starts, append=length))

    @classmethod
    def of_lengths(cls, lengths: Int64Array) -> Runs:
        return cls(lengths.cumsum() - lengths, lengths)

    @classmethod
    def between(cls, begin: Int64Array, end: Int64Array) -> Runs:
        """Run i is the elements `[begin[i], end[i])`."""
        return cls(begin, end - begin, apart=True)

    @cached_property
    def size(self) -> int:
        """The number of elements in all runs."""
        if self.apart or not len(self.starts):
            return int(self.lengths.sum())
        return int(self.starts[-1] + self.lengths[-1])

    @cached_property
    def numbers(self) -> Int64Array:
        """The run number of every element."""
        return np.arange(len(self.starts)).repeat(self.lengths)

    def gathered(self, state: State) -> tuple[State, Runs]:
        """Only the elements that are in runs, and the runs over those."""
        if not self.apart:
            return state, self
        if len(self.starts) == 1:
            only_run = slice(int(self.starts[0]), int(self.starts[0] + self.lengths[0]))
            return tuple(column[only_run] for column in state), self._gathered
        return tuple(column[self._positions] for column in state), self._gathered

    @cached_property
    def _gathered(self) -> Runs:
        return Runs.of_lengths(self.lengths)

    @cached_property
    def _positions(self) -> Int64Array:
        return spans(self.starts, self.lengths)

    def repeated(self, run_values: Array) -> Array:
        """The value of its run for every element."""
        return np.asarray(run_values.repeat(self.lengths))

    def sums(self, values: Array) -> Array:
        if self._are_short:
            total = values.take(self.starts)
            for run, position in self._later_elements:
                total[run] += values.take(position)
            return total
        (gathered,), runs = self.gathered((values,))
        if _FEW_ELEMENTS < self.size < _SHORT_ON_AVERAGE * len(self.starts):
            if values.dtype == np.float64:
                return np.bincount(runs.numbers, gathered, len(self.starts))
            if values.dtype == np.int64:  # overflow of the running sum cancels in the difference
                return np.diff(gathered.cumsum().take(runs._last), prepend=0)
        return np.asarray(np.add.reduceat(gathered, runs.starts))

    def sums_of(self, *columns: Float64Array) -> tuple[Float64Array, ...]:
        """`sums` of several columns; all at once if they have few elements."""
        if self.size > _FEW_ELEMENTS:
            return tuple(self.sums(column) for column in columns)
        together = np.array(columns)
        if self.apart:
            together = together.take(self._positions, axis=1)
        return tuple(np.add.reduceat(together, self._gathered.starts, axis=1))

    @cached_property
    def _are_short(self) -> bool:
        """Whether to add later elements to the first of each run one by one; gathering all of them takes longer."""
        average = _SHORT if self.apart else _MOSTLY_ONE
        return _FEW_ELEMENTS < self.size <= average * len(self.starts) and self._longest <= _SHORT

    @cached_property
    def _last(self) -> Int64Array:
        return self.starts + self.lengths - 1

    @cached_property
    def _later_elements(self) -> list[tuple[Int64Array, Int64Array]]:
        """The runs that have a second element and its positions, then the same for the third, and so on."""
        later: list[tuple[Int64Array, Int64Array]] = []
        for nth in range(1, self._longest):
            run = np.flatnonzero(self.lengths > nth)
            later.append((run, self.starts.take(run) + nth))
        return later

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
    """Whether rows are sorted by the first column, ties by the next, and so on."""
    tied = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    for column in columns:
        if np.any(tied & (column[1:] < column[:-1])):
            return False
        tied &= column[1:] == column[:-1]
    return True


def run_numbers(starts: Int64Array, length: int) -> Int64Array:
    """The run number of every element; runs begin at `starts`, the first at 0."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=length))


_LONG_RUNS = 1024
"""From this average length on, runs are copied faster as slices than element by element."""


def chooser(mask: BoolArray) -> Callable[[Array], Array]:
    """A function that takes the marked elements out of arrays of this length; long runs are copied as slices."""
    edges = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    if len(edges) * _LONG_RUNS > len(mask):
        positions = np.flatnonzero(mask)
        return lambda array: array[positions]
    bounds = [0, *edges.tolist(), len(mask)]
    first = 0 if len(mask) and mask[0] else 1
    runs = [slice(bounds[i], bounds[i + 1]) for i in range(first, len(bounds) - 1, 2)]
    return lambda array: np.concatenate([array[:0], *(array[run] for run in runs)])


def fold_runs(state: State, runs: Runs, combine: Combine) -> State:
    """Combine every run of neighbours into one partial, in order, in O(log longest run) vectorised rounds.

    Each round combines neighbours in pairs, so `combine` must be associative but need not be commutative.
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
        first = left[paired]
        combined = combine(tuple(column[first] for column in state), tuple(column[first + 1] for column in state))
        for target, column in zip(folded, combined, strict=True):
            target[paired] = column
        state = folded
        lengths = (lengths + 1) // 2
    return state


def search(
    values: Array, targets: Array, begin: Int64Array, end: Int64Array, side: Literal["left", "right"] = "left"
) -> Int64Array:
    """`np.searchsorted` of each target within its own sorted range `[begin, end)` of values."""
    low, high = begin.astype(np.int64), end.astype(np.int64)
    open_ranges = np.flatnonzero(low < high)
    while len(open_ranges):
        middle = (low[open_ranges] + high[open_ranges]) >> 1
        value, target = values[middle], targets[open_ranges]
        behind = value < target if side == "left" else value <= target
        low[open_ranges] = np.where(behind, middle + 1, low[open_ranges])
        high[open_ranges] = np.where(behind, high[open_ranges], middle)
        open_ranges = open_ranges[low[open_ranges] < high[open_ranges]]
    return low


_LONG_RUN = 4096


def search_behind(values: Array, targets: Array, starts: Int64Array) -> Int64Array:
    """For each element the position of the first value in its run that is greater than the element's target.

    The answer is the end of the run if no value is. Values and targets are sorted within each run.
    """
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    ends = np.append(starts[1:], len(values))
    positions = np.zeros(len(values), dtype=np.int64)
    for run in np.flatnonzero(ends - starts >= _LONG_RUN):  # few enough for a loop
        within = slice(starts[run], ends[run])
        positions[within] = starts[run] + np.searchsorted(values[within], targets[within], side="right")
    lengths = ends - starts
    short = np.flatnonzero(np.repeat(lengths < _LONG_RUN, lengths))
    positions[short] = search(values, targets[short], short, np.repeat(ends, lengths)[short], side="right")
    return positions


_FEW = 1024


def stable_order(*columns: Int64Array | UInt64Array) -> Int64Array:
    """`np.lexsort` of integers, as a radix sort: each digit is packed with a position into one integer.

    Sorting integers is several times as fast as sorting positions by them.
    """
    length = len(columns[0])
    if length < _FEW:
        return np.lexsort(columns)
    order: Int64Array | None = None  # as they are
    position_bits = length.bit_length()
    room = 62 - position_bits
    digit, filled = np.zeros(length, dtype=np.int64), 0
    for column in columns:
        remaining = column.view(np.uint64) - np.uint64(int(column.min()) % (1 << 64))
        width = int(remaining.max()).bit_length()
        while width:
            bits = min(width, room - filled)
            part = (remaining & np.uint64((1 << bits) - 1)).astype(np.int64)
            digit |= part << filled
            remaining, width, filled = remaining >> np.uint64(bits), width - bits, filled + bits
            if filled == room:
                order = _by_digit(digit, order, position_bits)
                digit, filled = np.zeros(length, dtype=np.int64), 0
    if filled:
        return _by_digit(digit, order, position_bits)
    return np.arange(length) if order is None else order


def _by_digit(digit: Int64Array, order: Int64Array | None, position_bits: int) -> Int64Array:
    packed = (digit if order is None else digit[order]) << position_bits
    packed |= np.arange(len(packed))
    packed.sort()
    packed &= (1 << position_bits) - 1
    return packed if order is None else np.asarray(order[packed])


def numbered(values: Int64Array, bound: int) -> tuple[Int64Array, Int64Array]:
    """For each value, in `range(bound)`, its place among the distinct ones, and these in order.

    `np.unique`, but several times as fast: values are packed with their positions and sorted as integers.
    """
    bits = len(values).bit_length()
    if (bound - 1).bit_length() + bits > 63:
        distinct, numbers = np.unique(values, return_inverse=True)
        return numbers, distinct
    packed = values << bits
    packed |= np.arange(len(values))
    packed.sort()
    positions = packed & ((1 << bits) - 1)
    packed >>= bits
    is_first = np.ones(len(values), dtype=bool)
    np.not_equal(packed[1:], packed[:-1], out=is_first[1:])
    in_order = is_first.cumsum()
    in_order -= 1
    numbers = np.empty(len(values), dtype=np.int64)
    numbers[positions] = in_order
    return numbers, packed[is_first]


def positions_in_runs(starts: Int64Array, length: int) -> Int64Array:
    """The position within its run of each of `length` elements; runs begin at `starts`."""
    return np.arange(length) - np.repeat(starts, np.diff(starts, append=length))


def spans(first: Int64Array, count: Int64Array) -> Int64Array:
    """The numbers `first[i] … first[i] + count[i] - 1` of every i, concatenated."""
    end: Int64Array = count.cumsum()
    shift: Int64Array = (first - end + count).repeat(count)
    return np.arange(len(shift)) + shift


def expand(first: Int64Array, count: Int64Array) -> tuple[Int64Array, Int64Array]:
    """`spans`, and the i of each number."""
    return spans(first, count), np.arange(len(count)).repeat(count)


def running_max(values: Array, starts: Int64Array) -> Array:
    """The largest value so far within each run; runs begin at `starts`."""
    if len(starts) < 2:
        return np.asarray(np.maximum.accumulate(values))
    within = np.ones(len(values), dtype=bool)
    within[starts] = False
    if np.all(values[1:][within[1:]] >= values[:-1][within[1:]]):
        return values  # already increasing: the most common case
    distinct, rank = np.unique(values, return_inverse=True)
    run = np.cumsum(~within)
    # Ranks are shifted above those of all earlier runs, so that one sweep serves all runs.
    highest = np.maximum.accumulate(run * len(distinct) + rank)
    return np.asarray(distinct[highest - run * len(distinct)])
