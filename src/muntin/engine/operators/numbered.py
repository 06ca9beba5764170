"""Numbers of finalized tuples, and the leaves that have them.

The tuples of a key are numbered in their final order, without a gap. The time of a leaf is the number of its first
tuple. Where keys are forgotten, a pause of that length also begins another *run*: windows then count from its first
tuple, and no window has tuples of two runs. So it makes no difference whether a key was forgotten in the pause or not.

The first number of a run follows from the time of its first tuple, and every run of a key begins behind the one before.
So a key that was forgotten never gets a number again that older parts of the state still have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.arrays import BoolArray, Int64Array, State, positions_in_runs, run_numbers, run_starts, running_max
from muntin.engine.operators.leaf_index import LeafIndex
from muntin.engine.operators.partials import FIRST_TIME, LAST_TIME, ROW_COUNT_FIELD, RUN_BEGIN
from muntin.panes.table import Leaves

PER_MICROSECOND = 16
"""The numbers per microsecond of event time. A key that has more tuples is kept until its time is ahead of them."""
FARTHEST = 1 << 58
"""Times further away from 1970 than this, about 9,000 years, are treated as this."""


class Numbered:
    """Leaves of numbered tuples, key by key and run by run. Without forgetting, every key has one run."""

    def __init__(self, leaves: Leaves, forget_after: int | None = None) -> None:
        self.leaves = leaves
        self.forget_after = forget_after
        self._begin = None if forget_after is None else leaves.state[RUN_BEGIN]
        self.starts = run_starts(leaves.key) if self._begin is None else run_starts(leaves.key, self._begin)
        self.lengths = np.diff(self.starts, append=len(leaves))
        self.first_time, self.last_time = leaves.state[FIRST_TIME], leaves.state[LAST_TIME]

    @cached_property
    def run(self) -> Int64Array:
        """A number for the run of each leaf, in order."""
        return self.leaves.key if self._begin is None else run_numbers(self.starts, len(self.leaves))

    @cached_property
    def run_begin(self) -> Int64Array:
        """The first number of each leaf's run."""
        return np.zeros(len(self.leaves), dtype=np.int64) if self._begin is None else self._begin

    @cached_property
    def number(self) -> Int64Array:
        """The place of each leaf's first tuple in its run."""
        return self.leaves.time if self._begin is None else self.leaves.time - self._begin

    @cached_property
    def next_number(self) -> Int64Array:
        """The place in its run of the first tuple after each leaf."""
        return self.number + self.leaves.state[ROW_COUNT_FIELD]

    @cached_property
    def last(self) -> Int64Array:
        """The last leaf of each run."""
        return self.starts + self.lengths - 1

    @cached_property
    def is_last(self) -> BoolArray:
        last = np.zeros(len(self.leaves), dtype=bool)
        last[self.last] = True
        return last

    @cached_property
    def by_number(self) -> LeafIndex:
        """By run and number. Shared by all count windows."""
        return LeafIndex(self.run, self.number)

    def of_run(self, per_run: Int64Array) -> Int64Array:
        """Repeat a value per run for every leaf of the run."""
        return np.repeat(per_run, self.lengths)

    def from_end(self, begin: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The distances of the ranges' begins and ends from the end of their key, in tuples. Each is of one key."""
        last, _ = self.last_of(self.leaves.key[begin])
        count = self.leaves.state[ROW_COUNT_FIELD]
        counted = np.cumsum(count)
        return counted[last] - counted[begin] + count[begin], counted[last] - counted[end - 1]

    def end_of(self, leaf: Int64Array) -> Int64Array:
        """The number behind these leaves, which the next tuple of their key gets, unless it begins another run."""
        return self.leaves.time[leaf] + self.leaves.state[ROW_COUNT_FIELD][leaf]

    def last_of(self, keys: Int64Array) -> tuple[Int64Array, BoolArray]:
        """The last leaf of each of these keys, and whether there is one."""
        last = np.searchsorted(self.leaves.key, keys, side="right") - 1
        if not len(self.leaves):
            return last, np.zeros(len(keys), dtype=bool)
        return last, (last >= 0) & (self.leaves.key[last] == keys)

    def that_go_on(self, needed: BoolArray, finalized: int) -> BoolArray:
        """Those of the needed leaves to whose run a later tuple may be added, or at least its number."""
        if self.forget_after is None:
            return needed
        key = self.leaves.key[self.last]
        goes_on = self.last_time[self.last] > finalized - self.forget_after
        goes_on |= self.end_of(self.last) > min(finalized, FARTHEST) * PER_MICROSECOND
        goes_on[:-1] &= key[1:] != key[:-1]
        return needed & np.repeat(goes_on, self.lengths)


@dataclass(frozen=True)
class Numbers:
    """The numbers of newly finalized tuples, which are sorted by key and in their final order."""

    number: Int64Array
    begin: Int64Array | None
    """The first number of each tuple's run; None without forgetting."""
    key_starts: Int64Array
    """Where keys begin."""
    key_lengths: Int64Array
    last: Int64Array
    """The last leaf of each of these keys in the state."""
    known: BoolArray
    """Whether there is one."""

    @classmethod
    def of(cls, key: Int64Array, time: Int64Array, before: Numbered, begins: BoolArray | None = None) -> Numbers:
        """`begins` are the tuples that begin a run, if that does not follow from their times alone."""
        key_starts = run_starts(key)
        lengths = np.diff(key_starts, append=len(key))
        last, known = before.last_of(key[key_starts])
        place = positions_in_runs(key_starts, len(key))
        following = np.where(known, before.end_of(last), 0) if known.any() else np.zeros(len(last), dtype=np.int64)
        if before.forget_after is None:
            number = place + np.repeat(following, lengths) if known.any() else place
            return cls(number, None, key_starts, lengths, last, known)
        begins = begun_by_time(key_starts, time, last, known, before) if begins is None else begins
        # A run begins at the number of its time, or behind the run before it. Relative to the place, that is a maximum.
        is_start = begins.copy()
        is_start[key_starts] = True
        starts = np.flatnonzero(is_start)
        of_key = np.searchsorted(starts, key_starts)
        shift = np.clip(time[starts], -FARTHEST, FARTHEST) * PER_MICROSECOND
        goes_on = known & ~begins[key_starts]
        shift[of_key[known]] = np.maximum(shift[of_key[known]], following[known])
        shift[of_key[goes_on]] = following[goes_on]
        shift = running_max(shift - place[starts], of_key)
        begin = shift + place[starts]
        begin[of_key[goes_on]] = before.run_begin[last[goes_on]]
        run_lengths = np.diff(starts, append=len(key))
        return cls(
            place + np.repeat(shift, run_lengths), np.repeat(begin, run_lengths), key_starts, lengths, last, known
        )

    def noted(self, state: State, positions: Int64Array | None = None) -> State:
        """The state of the leaves of these tuples, with the first number of their run."""
        if self.begin is None:
            return state
        begin = self.begin if positions is None else self.begin[positions]
        return (*state[:RUN_BEGIN], begin, *state[RUN_BEGIN + 1 :])


def begun_by_time(
    key_starts: Int64Array, time: Int64Array, last: Int64Array, known: BoolArray, before: Numbered
) -> BoolArray:
    """Which tuples begin a run: those that come so long after the tuple before them that their key is forgotten."""
    assert before.forget_after is not None
    begins = np.empty(len(time), dtype=bool)
    begins[1:] = np.diff(time) >= before.forget_after
    begins[key_starts] = True
    if known.any():
        pause = time[key_starts[known]] - before.last_time[last[known]]
        begins[key_starts[known]] = pause >= before.forget_after
    return begins
