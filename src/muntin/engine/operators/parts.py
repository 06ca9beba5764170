"""Some partials of a leaf set: only requested partials are combined."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from muntin.arrays import State
from muntin.panes.table import LeafSet


@dataclass(frozen=True)
class Parts:
    """Some partials of a set as a leaf set of their own."""

    leaf_set: LeafSet
    fields: tuple[slice, ...]
    """Where the fields of each partial are in the full set."""

    @classmethod
    def of(cls, leaf_set: LeafSet, requested: Collection[int]) -> Parts:
        """The partials whose fields begin at the requested indices."""
        selected = [(partial, fields) for partial, fields in leaf_set.parts() if fields.start in requested]
        partials = tuple(partial for partial, _ in selected)
        return cls(LeafSet(partials, leaf_set.per_tuple), tuple(fields for _, fields in selected))

    def __len__(self) -> int:
        return len(self.fields)

    def state(self, full_state: State) -> State:
        """Their fields of the state of the full set."""
        return tuple(column for fields in self.fields for column in full_state[fields])

    def by_field(self, state: State) -> dict[int, State]:
        """The state of each partial, by where its fields begin in the full set."""
        own_fields = (fields for _, fields in self.leaf_set.parts())
        return {fields.start: state[own] for fields, own in zip(self.fields, own_fields, strict=True)}
