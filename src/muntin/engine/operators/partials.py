"""What operators keep of tuples in addition to the aggregates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import Runs, State
from muntin.partials.partial import Field, Partial
from muntin.partials.rows import Rows


@dataclass(frozen=True)
class TimeSpan(Partial):
    """The times of the first and of the last tuple."""

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("int64"), Field("int64"))

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def lift(self, rows: Rows) -> State:
        if rows.one_each:
            return (rows.times, rows.times)
        groups = rows.grouped((), None)
        return (groups.least(rows.times), groups.greatest(rows.times))

    def combine(self, left: State, right: State) -> State:
        return (np.minimum(left[0], right[0]), np.maximum(left[1], right[1]))

    def reduce(self, state: State, runs: Runs) -> State:
        return (runs.least(state[0]), runs.greatest(state[1]))


ROW_COUNT_FIELD, FIRST_TIME, LAST_TIME = range(3)
"""The fields that every leaf of a tuple operator begins with: the row count and the time span."""
RUN_BEGIN = 3
"""The next field, where keys are forgotten."""


@dataclass(frozen=True)
class RunBegin(Partial):
    """The number of the first tuple in the run of a leaf, see `Numbered`. The operator sets it."""

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("int64"),)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def lift(self, rows: Rows) -> State:
        return (np.zeros(rows.group_count, dtype=np.int64),)

    def combine(self, left: State, right: State) -> State:
        return right

    def reduce(self, state: State, runs: Runs) -> State:
        return (runs.least(state[0]),)


@dataclass(frozen=True)
class Registers(Partial):
    """What an operator notes for each tuple. It is never combined: every tuple has a leaf of its own."""

    dtypes: tuple[str, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(dtype) for dtype in self.dtypes)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def lift(self, rows: Rows) -> State:
        return tuple(np.zeros(rows.group_count, dtype) for dtype in self.dtypes)

    def combine(self, left: State, right: State) -> State:
        return right
