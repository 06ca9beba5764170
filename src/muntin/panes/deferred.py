"""Leaves that are merged when somebody reads them.

Merging what arrives into a large table copies the table, whatever has arrived. Where a tree answers from its own nodes,
nobody reads the table for many batches. So its parts stay apart until then, and small ones are merged with each other,
so that there are few of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from muntin.arrays import Array, Int64Array, State
from muntin.panes.table import LeafSet, Leaves, arranged, reranked

SLACK = 1 << 12
"""Parts may have this many superfluous leaves, beyond as many as there are leaves."""


@dataclass(frozen=True)
class Part:
    """Leaves as they arrived, and what has become of the codes of their keys and the ranks of their values."""

    leaves: Leaves
    codes: Int64Array | None = None
    ranks: Mapping[str, Int64Array] = field(default_factory=dict)

    def under(self, codes: Int64Array | None, ranks: Mapping[str, Int64Array]) -> Part:
        """The part under new codes (None if they stay) and ranks."""
        if codes is None:
            codes = self.codes
        elif self.codes is not None:
            codes = codes[self.codes]
        before = {name: new[self.ranks[name]] if name in self.ranks else new for name, new in ranks.items()}
        return Part(self.leaves, codes, {**self.ranks, **before})

    def read(self, leaf_set: LeafSet, first: int) -> Leaves:
        """Its leaves from a time on."""
        kept = self.leaves.time >= first
        leaves = self.leaves if kept.all() else self.leaves.take(kept)
        key = leaves.key if self.codes is None else self.codes[leaves.key]
        columns = zip(leaf_set.fields, leaves.state, strict=True)
        state = tuple(reranked(column, each, self.ranks) if self.ranks else column for each, column in columns)
        return Leaves(key, leaves.time, state)


class DeferredLeaves(Leaves):
    """The leaves of all parts from the time `first` on. Leaves of one key and time are combined."""

    def __init__(
        self, leaf_set: LeafSet, parts: tuple[Part, ...], first: int, counted: tuple[int, Int64Array] | None = None
    ) -> None:
        """`counted` is the number of leaves, and the codes of their keys, if known."""
        # Not assigned one by one: the dataclass is frozen.
        self.__dict__.update(_leaf_set=leaf_set, _parts=parts, _first=first, _counted=counted)

    _leaf_set: LeafSet
    _parts: tuple[Part, ...]
    _first: int
    _counted: tuple[int, Int64Array] | None

    @classmethod
    def of(cls, leaf_set: LeafSet, leaves: Leaves) -> DeferredLeaves:
        if isinstance(leaves, DeferredLeaves):
            return leaves
        return cls(leaf_set, (Part(leaves),), np.iinfo(np.int64).min)

    def under(self, codes: Int64Array | None, ranks: Mapping[str, Int64Array]) -> DeferredLeaves:
        """The leaves under new codes (None if they stay) and ranks."""
        parts = tuple(part.under(codes, ranks) for part in self._parts)
        return DeferredLeaves(self._leaf_set, parts, self._first)

    def added(self, leaves: Leaves) -> DeferredLeaves:
        """With more leaves. Parts that are not much larger than those behind them are merged with them."""
        if not len(leaves):
            return self
        parts = [*self._parts, Part(leaves)]
        while len(parts) > 2 and len(parts[-2].leaves) < 2 * len(parts[-1].leaves):
            parts[-2:] = [Part(self._merged(parts[-2:]))]
        return DeferredLeaves(self._leaf_set, tuple(parts), self._first)

    def since(self, first: int, counted: tuple[int, Int64Array]) -> DeferredLeaves:
        """Without the leaves before a time. `counted` is the number of the others, and the codes of their keys."""
        leaves = DeferredLeaves(self._leaf_set, self._parts, max(first, self._first), counted)
        if sum(len(part.leaves) for part in self._parts) > 2 * counted[0] + SLACK:
            leaves._arranged  # noqa: B018  # its parts are forgotten
        return leaves

    def recoded(self, codes: Int64Array) -> Leaves:
        leaves = self.under(codes, {})
        if self._counted is not None:
            leaves.__dict__["_counted"] = (self._counted[0], codes[self._counted[1]])
        return leaves

    def __len__(self) -> int:
        return len(self._arranged) if self._counted is None else self._counted[0]

    @property
    def used_codes(self) -> Int64Array:
        return super().used_codes if self._counted is None else self._counted[1]

    @property
    def nbytes(self) -> int:
        return sum(part.leaves.nbytes for part in self._parts)

    @cached_property
    def key(self) -> Int64Array:
        return self._arranged.key

    @cached_property
    def time(self) -> Int64Array:
        return self._arranged.time

    @cached_property
    def state(self) -> State:
        return self._arranged.state

    @cached_property
    def _arranged(self) -> Leaves:
        leaves = self._merged(self._parts)
        self.__dict__["_parts"] = (Part(leaves),)
        return leaves

    def _merged(self, parts: tuple[Part, ...] | list[Part]) -> Leaves:
        read = [part.read(self._leaf_set, self._first) for part in parts]
        key, time = (np.concatenate([getattr(leaves, name) for leaves in read]) for name in ("key", "time"))
        state: tuple[Array, ...] = tuple(map(np.concatenate, zip(*(leaves.state for leaves in read), strict=True)))
        return arranged(self._leaf_set, Leaves(key, time, state))
