"""The leaves of trees that live: the trees hold them, and nobody else does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from muntin.arrays import Array, Int64Array, State
from muntin.panes.table import LeafSet, Leaves, arranged


class LiveLeaves(Leaves):
    """Leaves that are read from a tree when somebody asks for them, until the tree changes."""

    def __init__(self, read: Callable[[], Leaves], count: int, codes: Int64Array) -> None:
        """`count` is the number of leaves, and `codes` are those of their keys."""
        # Not assigned one by one: the dataclass is frozen.
        self.__dict__.update(_read=read, _count=count, _codes=codes)

    _read: Callable[[], Leaves]
    _count: int
    _codes: Int64Array

    def __len__(self) -> int:
        return self._count

    @property
    def used_codes(self) -> Int64Array:
        return self._codes

    @property
    def nbytes(self) -> int:
        return 0

    def recoded(self, codes: Int64Array) -> Leaves:
        return LiveLeaves(lambda: self._leaves.recoded(codes), self._count, codes[self._codes])

    @cached_property
    def key(self) -> Int64Array:
        return self._leaves.key

    @cached_property
    def time(self) -> Int64Array:
        return self._leaves.time

    @cached_property
    def state(self) -> State:
        return self._leaves.state

    @cached_property
    def _leaves(self) -> Leaves:
        return self._read()


def joined(leaf_set: LeafSet, old: Leaves, new: Leaves) -> Leaves:
    """The leaves of both; those of one key and time are combined."""
    key, time = np.concatenate([old.key, new.key]), np.concatenate([old.time, new.time])
    state: tuple[Array, ...] = tuple(map(np.concatenate, zip(old.state, new.state, strict=True)))
    return arranged(leaf_set, Leaves(key, time, state))
