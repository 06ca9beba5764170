"""Some partials of a leaf set: those that are asked for. What nobody asks for is not combined."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from muntin.arrays import State
from muntin.panes.table import LeafSet


@dataclass(frozen=True)
class Parts:
    """Partials as a leaf set of their own, with where their fields are in the whole one."""

    leaf_set: LeafSet
    fields: tuple[slice, ...]

    @classmethod
    def of(cls, whole: LeafSet, asked: Collection[int]) -> Parts:
        """Those partials whose fields begin there."""
        chosen = [(partial, fields) for partial, fields in whole.parts() if fields.start in asked]
        partials = tuple(partial for partial, _ in chosen)
        return cls(LeafSet(partials, whole.per_tuple), tuple(fields for _, fields in chosen))

    def __len__(self) -> int:
        return len(self.fields)

    def state(self, whole: State) -> State:
        """Their fields, out of all."""
        return tuple(column for fields in self.fields for column in whole[fields])

    def by_field(self, state: State) -> dict[int, State]:
        """The state of each partial, by where its fields begin in the whole set."""
        own = (fields for _, fields in self.leaf_set.parts())
        return {fields.start: state[new] for fields, new in zip(self.fields, own, strict=True)}
