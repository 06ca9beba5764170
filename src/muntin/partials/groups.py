"""Reductions of rows by group: the kernels that lift tuples into panes."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from muntin.arrays import Array, BoolArray, Float64Array, Int64Array, Runs


class Groups:
    """The group of each row, and what can be computed of each group's rows.

    Where the rows of each group are neighbours, a reduction is one sweep over memory. Otherwise each row is added to
    what its group has so far.
    """

    def __init__(self, members: Int64Array | Runs, count: int) -> None:
        """`members` are the groups of the rows, in `range(count)`, or one run of rows for each group, in order."""
        self._runs = members if isinstance(members, Runs) else None
        self._members = members
        self.count = count

    @cached_property
    def numbers(self) -> Int64Array:
        """The group of each row."""
        return self._members.numbers if isinstance(self._members, Runs) else self._members

    @cached_property
    def sizes(self) -> Int64Array:
        """The number of rows in each group."""
        if self._runs is not None:
            return self._runs.lengths
        return sizes(self.numbers, self.count)

    def where(self, mask: BoolArray) -> Groups:
        """The same groups, with only some of the rows."""
        return Groups(self.numbers[mask], self.count)

    def repeated(self, values: Array) -> Array:
        """For each row, the value of its group."""
        return values.take(self.numbers) if self._runs is None else self._runs.repeated(values)

    def sums(self, values: Float64Array) -> Float64Array:
        if self._runs is None:
            return sums(self.numbers, values, self.count)
        with np.errstate(all="ignore"):
            return self._runs.sums(values) + 0.0  # from 0.0, as the other way: never -0.0

    def exact_sums(self, values: Int64Array) -> Int64Array:
        """Sums of integers, modulo 2**64."""
        return exact_sums(self.numbers, values, self.count) if self._runs is None else self._runs.sums(values)

    def least(self, values: Array) -> Array:
        """The least value of each group, where NaN is greater than all numbers. A group without rows has any value."""
        best = np.fmin if values.dtype.kind == "f" else np.minimum
        return self._best(best, values, _greatest(values.dtype))

    def greatest(self, values: Array) -> Array:
        """As `least`."""
        return self._best(np.maximum, values, _least(values.dtype))

    def _best(self, function: np.ufunc, values: Array, initial: float) -> Array:
        with np.errstate(invalid="ignore"):  # NaN
            if self._runs is not None:
                return np.asarray(function.reduceat(values, self._runs.starts))
            best = np.full(self.count, initial, dtype=values.dtype)
            function.at(best, self.numbers, values)
        return best


def _greatest(kind: np.dtype) -> float:
    return np.nan if kind.kind == "f" else np.iinfo(kind).max


def _least(kind: np.dtype) -> float:
    return -np.inf if kind.kind == "f" else np.iinfo(kind).min


def sizes(groups: Int64Array, group_count: int) -> Int64Array:
    """The number of rows in each group."""
    # bincount looks for the least and the greatest group first, which takes half as long again.
    count = np.zeros(group_count, dtype=np.int64)
    np.add.at(count, groups, 1)
    return count


def sums(groups: Int64Array, weights: Float64Array, group_count: int) -> Float64Array:
    """The sum of each group's weights."""
    total = np.zeros(group_count)
    with np.errstate(all="ignore"):  # inf - inf
        np.add.at(total, groups, weights)
    return total


def exact_sums(groups: Int64Array, weights: Int64Array, group_count: int) -> Int64Array:
    """The sum of each group's integers, modulo 2**64."""
    total = np.zeros(group_count, dtype=np.int64)
    np.add.at(total, groups, weights)
    return total
