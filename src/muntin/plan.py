"""The plan: a query with everything resolved, which is what travels to the workers. It knows nothing of Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.aggregates.custom import CustomPartial
from muntin.aggregates.partial import Count, Partial
from muntin.panes.grid import PaneGrid
from muntin.panes.table import Layout, LeafSet, key_schema
from muntin.windows import TimeWindow

ROW_COUNT = Count(None, None)
"""Kept in every pane, first: it says how many tuples stand behind a leaf, and that there is one."""


@dataclass(frozen=True)
class Output:
    """A named aggregate and where its partials are: the leaf set and the fields of each."""

    name: str
    bound: Bound
    slots: tuple[tuple[int, slice], ...]


@dataclass(frozen=True)
class Plan:
    time: str
    windows: tuple[TimeWindow, ...]
    types: Mapping[str, pa.DataType]
    """Every column that the stages read, with its type; times are in UTC."""
    keys: tuple[str, ...]
    layout: Layout
    outputs: tuple[Output, ...]
    shards: tuple[int, ...]
    late_row: pa.DataType | None
    """The type of a whole input row, if rows that came too late are to be emitted."""
    streaming: bool
    """Whether there is a watermark: then every shard hears of every batch, so that it knows what is late."""

    @classmethod
    def make(
        cls,
        *,
        time: str,
        windows: Sequence[TimeWindow],
        types: Mapping[str, pa.DataType],
        keys: Sequence[str],
        aggregates: Mapping[str, Bound],
        shards: Sequence[int],
        late_row: pa.DataType | None = None,
        streaming: bool = False,
    ) -> Plan:
        layout, outputs = _lay_out(keys, types, aggregates)
        return cls(time, tuple(windows), dict(types), tuple(keys), layout, outputs, tuple(shards), late_row, streaming)

    @cached_property
    def grid(self) -> PaneGrid:
        return PaneGrid.of(self.windows)

    @property
    def result_schema(self) -> pa.Schema:
        time = self.types[self.time]
        fields = [
            pa.field("window", pa.struct([("start", time), ("end", time)])),
            pa.field("window_id", pa.int64()),
        ]
        if len(self.windows) > 1:
            fields.append(pa.field("window_name", pa.string()))
        fields += [pa.field(key, self.types[key]) for key in self.keys]
        fields += [pa.field(output.name, output.bound.result) for output in self.outputs]
        if self.late_row is not None:
            fields.append(pa.field("late", self.late_row))
        return pa.schema(fields)

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever state of one query would mean something else to the other."""
        layout = [[repr(_without_functions(partial)) for partial in each.partials] for each in self.layout.leaf_sets]
        windows = [(window.size, window.slide, window.offset) for window in self.windows]
        parts = (self.time, windows, self.keys, sorted((k, str(v)) for k, v in self.types.items()), layout)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _without_functions(partial: Partial) -> object:
    """A custom partial by its shape: the addresses of its functions differ from run to run."""
    if isinstance(partial, CustomPartial):
        return ("custom", partial.columns, partial.where, partial.shape, partial.dtypes, partial.commutative)
    return partial


def _lay_out(
    keys: Sequence[str], types: Mapping[str, pa.DataType], aggregates: Mapping[str, Bound]
) -> tuple[Layout, tuple[Output, ...]]:
    """Share the built-in partials between aggregates; give every custom one leaves of its own."""
    shared: list[Partial] = [ROW_COUNT]
    own: list[CustomPartial] = []
    for bound in aggregates.values():
        for partial in bound.partials:
            if isinstance(partial, CustomPartial):
                own.append(partial)
            elif partial not in shared:
                shared.append(partial)
    leaf_sets = (LeafSet(tuple(shared)), *(LeafSet((each,), per_tuple=not each.commutative) for each in own))
    where = dict(leaf_sets[0].parts())
    outputs, next_own = [], 1
    for name, bound in aggregates.items():
        slots = []
        for partial in bound.partials:
            if isinstance(partial, CustomPartial):
                slots.append((next_own, slice(0, len(partial.fields))))
                next_own += 1
            else:
                slots.append((0, where[partial]))
        outputs.append(Output(name, bound, tuple(slots)))
    schema = key_schema([pa.field(key, types[key]) for key in keys])
    return Layout(schema, leaf_sets), tuple(outputs)
