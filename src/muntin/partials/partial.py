"""Partials: partial results of a pane's tuples. `lift` makes them from tuples, `combine` merges them.

An aggregate is a set of partials and a `lower` that turns their combination into the answer. Partials are values:
two aggregates that need the same one (`sum` and `mean` of one column) share it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.arrays import Float64Array, Int64Array, Runs, State, fold_runs, namespace
from muntin.partials.rows import Rows


@dataclass(frozen=True)
class Field:
    """One array of a partial's state."""

    dtype: str
    dictionary: str | None = None
    """The column whose dictionary the ranks in this field belong to, if they are ranks."""
    inverted: bool = False
    """Whether the field is the complement of its values, so that the greatest value compares as the least."""


@dataclass(frozen=True)
class Partial(ABC):
    where: str | None
    """The boolean column that says which tuples count, if not all of them."""
    of_incomplete: ClassVar[bool] = False
    """Whether it is kept only where tuples were dropped."""
    rounds: ClassVar[bool] = False
    """Whether combining rounds, so that the last bits depend on the order in which panes are combined."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]: ...

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The columns that `lift` reads."""

    @property
    def read(self) -> tuple[str, ...]:
        """`inputs` and the filter."""
        return self.inputs if self.where is None else (*self.inputs, self.where)

    @abstractmethod
    def lift(self, rows: Rows) -> State:
        """One partial per group, of its tuples that count; there may be none."""

    @abstractmethod
    def combine(self, left: State, right: State) -> State:
        """The partials of both sides' tuples together, position by position.

        Built-in partials combine the arrays of any device, by functions of the array API standard.
        """

    def reduce(self, state: State, runs: Runs) -> State:
        """One partial per run of neighbours."""
        return fold_runs(state, runs, self.combine)


@dataclass(frozen=True)
class Count(Partial):
    """The number of tuples that count: all of them, or those in which `column` is not null."""

    column: str | None

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("int64"),)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,) if self.column is not None else ()

    def lift(self, rows: Rows) -> State:
        if rows.one_each:
            return (rows.one_by_one(self.inputs, self.where, np.ones(rows.group_count, dtype=np.int64), 0),)
        if rows.strata is not None and self.column is None and self.where is None:
            return (rows.strata.received.astype(np.int64),)  # dropped tuples count, too
        return (rows.grouped(self.inputs, self.where).sizes,)

    def combine(self, left: State, right: State) -> State:
        return (left[0] + right[0],)

    def reduce(self, state: State, runs: Runs) -> State:
        return (runs.sums(state[0]),)


@dataclass(frozen=True)
class ColumnPartial(Partial):
    """A partial of one column."""

    column: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True)
class FloatSum(ColumnPartial):
    """The sum of a floating column, in double precision as Spark's."""

    rounds = True

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("float64"),)

    def lift(self, rows: Rows) -> State:
        if rows.one_each:
            return (rows.one_by_one(self.inputs, self.where, rows.numbers(self.column), 0),)
        return (rows.sums(self.column, self.where),)

    def combine(self, left: State, right: State) -> State:
        with np.errstate(all="ignore"):  # inf - inf is NaN, as in Spark: no reason to warn
            return (left[0] + right[0],)

    def reduce(self, state: State, runs: Runs) -> State:
        with np.errstate(all="ignore"):
            return (runs.sums(state[0]),)


HALF = 32
"""The bits of a digit."""
LOW = (1 << HALF) - 1


@dataclass(frozen=True)
class IntegerSum(ColumnPartial):
    """The exact sum of an integer column, as `high * 2**32 + low` with `0 <= low < 2**32`.

    Two halves cannot overflow before some 2**31 tuples of the largest values. So an overflow is detected in the window
    whose answer overflows, and never in a node of the tree that no window reads.
    """

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("int64"), Field("int64"))

    def lift(self, rows: Rows) -> State:
        groups = rows.grouped(self.inputs, self.where)
        weights = rows.counting(self.inputs, self.where, self.integers(rows))
        largest = max(abs(int(weights.min())), abs(int(weights.max()))) if len(weights) else 0
        if largest * len(weights) < 1 << 63:  # no sum of them can overflow
            total = groups.exact_sums(weights)
            return (total >> HALF, total & LOW)
        return carried(groups.exact_sums(weights >> HALF), groups.exact_sums(weights & LOW))

    def integers(self, rows: Rows) -> Int64Array:
        return rows.order_keys(self.column)

    def combine(self, left: State, right: State) -> State:
        return carried(left[0] + right[0], left[1] + right[1])

    def reduce(self, state: State, runs: Runs) -> State:
        return carried(runs.sums(state[0]), runs.sums(state[1]))


def as_numbers(total: State) -> Float64Array:
    """The sums of `FloatSum` or `IntegerSum` in double precision."""
    return np.asarray(total[0] if len(total) == 1 else total[0] * 2.0**HALF + total[1])


def carried(*digits: Int64Array) -> State:
    """Digits of 32 bits, the highest first: the overflow of each is carried to the one before it."""
    *higher, low = digits
    if not higher:
        return (low,)
    return (*carried(*higher[:-1], higher[-1] + (low >> HALF)), low & LOW)


@dataclass(frozen=True)
class Moments(ColumnPartial):
    """Count, mean and sum of squared deviations, merged by the formula of Chan, Golub and LeVeque.

    Sums of squares would cancel catastrophically for values far from zero; deviations from the mean do not.
    """

    rounds = True

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("float64"), Field("float64"), Field("float64"))

    def lift(self, rows: Rows) -> State:
        groups = rows.grouped(self.inputs, self.where)
        numbers = rows.counting(self.inputs, self.where, rows.numbers(self.column))
        count = groups.sizes.astype(np.float64)
        with np.errstate(all="ignore"):
            mean = rows.sums(self.column, self.where) / np.maximum(count, 1)
            deviations = groups.repeated(mean)
            np.subtract(numbers, deviations, out=deviations)
            squares = groups.sums(np.square(deviations, out=deviations))
        return (count, mean, squares)

    def combine(self, left: State, right: State) -> State:
        count_left, mean_left, squares_left = left
        count_right, mean_right, squares_right = right
        xp = namespace(count_left)
        count = count_left + count_right
        share = count_right / xp.maximum(count, 1)
        with np.errstate(all="ignore"):
            difference = mean_right - mean_left
            mean = mean_left + difference * share
            squares = squares_left + squares_right + difference * difference * count_left * share
        # Where a side has no tuples, the result is exactly the other side, whatever the difference.
        mean = xp.where(count_left == 0, mean_right, xp.where(count_right == 0, mean_left, mean))
        squares = xp.where(count_left == 0, squares_right, xp.where(count_right == 0, squares_left, squares))
        return (count, mean, squares)
