"""Panes of a table that the host makes, such as Spark with its own `groupBy`.

The host groups rows faster than it sends them elsewhere. Where all partials of a query follow from ordinary aggregates,
it groups by (key, pane), and only panes are sent to the window stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.aggregates.decomposable import SumAggregate
from muntin.arrays import Array, Int64Array
from muntin.engine.batch import Arrived
from muntin.engine.features import Feature
from muntin.engine.native_partials import PRESENT, Counterpart, NativeAggregate, counterpart, presence
from muntin.engine.operators.operator import Output
from muntin.engine.plan import Plan
from muntin.panes import keys as key_codes
from muntin.panes.grid import last_ends
from muntin.panes.table import Leaves, PaneTable, key_batch, key_columns, sort_order
from muntin.partials import values
from muntin.partials.least import Least
from muntin.partials.partial import Count, Partial
from muntin.windows import PaneWindow
from muntin.windows.model import NEVER

_SPARSE = 4
"""Leaves are put in order by a table of all keys and panes, if there are at most this many for each leaf."""


@dataclass(frozen=True)
class NativePanes:
    """How panes follow from what the host computes of each key and pane."""

    aggregates: tuple[NativeAggregate, ...]
    """What it computes, each once."""
    counterparts: tuple[Counterpart, ...]
    """Those of all partials, in the order of their fields."""

    @classmethod
    def of(cls, plan: Plan) -> NativePanes | str:
        """The panes that the host makes, or the reason why the pane stage has to make them."""
        reason = _unsuitable(plan)
        if reason is not None:
            return reason
        counterparts = []
        for partial, fields in plan.layout.leaf_sets[0].parts():
            users = [output for output in plan.operators[0].outputs if (0, fields) in output.slots]
            found = _counterpart(partial, users, plan)
            if found is None:
                names = ", ".join(repr(output.name) for output in users)
                sorts = " and would sort all rows" if isinstance(partial, Least) else ""
                return f"Spark's hash aggregation has no counterpart of {names}{sorts}"
            counterparts.append(found)
        distinct = dict.fromkeys(aggregate for found in counterparts for aggregate in found.aggregates)
        return cls(tuple(distinct), tuple(counterparts))

    def arrived(self, plan: Plan, rows: pa.Table) -> Arrived:
        """The panes of a shard. Each row has a key, the start of a pane in microseconds, and then the aggregates.

        The start is null for rows without an event time. They are not counted: a table has no progress to report.
        """
        rows = rows.combine_chunks()
        pane = _column(rows, len(plan.keys))
        starts, kept = np.asarray(pane.fill_null(0)), np.asarray(pane.is_valid())
        if all(isinstance(window, PaneWindow) and window.has_gaps for window in plan.windows):
            kept &= last_ends(starts, plan.windows) > NEVER
        if not kept.all():
            rows, starts = rows.filter(pa.array(kept)).combine_chunks(), starts[kept]
        return Arrived([self._table(plan, rows, starts)] if len(starts) else [], {"arrived_bytes": rows.nbytes})

    def _table(self, plan: Plan, rows: pa.Table, starts: Int64Array) -> PaneTable:
        fields = plan.layout.keys if plan.keys else pa.schema([])
        given = [_column(rows, index).cast(field.type) for index, field in enumerate(fields)]
        keys = key_columns(pa.RecordBatch.from_arrays(given, schema=fields), fields)
        codes, first_rows = key_codes.encode(keys, len(starts))
        begin = len(plan.keys) + 1
        computed = {aggregate: _column(rows, begin + index) for index, aggregate in enumerate(self.aggregates)}
        columns = [
            found.values([computed[aggregate] for aggregate in found.aggregates], starts) for found in self.counterparts
        ]
        dictionaries = self._rank(columns)
        state: list[Array] = []
        for found, of_partial in zip(self.counterparts, columns, strict=True):
            state += found.state(of_partial, len(starts))
        leaves = Leaves(codes, starts, tuple(state)).take(_order(codes, starts, plan.grid.length))
        return PaneTable(key_batch(keys, plan.layout.keys, first_rows), (leaves,), dictionaries)

    def _rank(self, columns: Sequence[list[pa.Array]]) -> dict[str, pa.Array]:
        """Replace the values of counterparts that are ranked by their ranks, and return the dictionaries."""
        places: dict[str, list[tuple[int, int]]] = {}
        for number, found in enumerate(self.counterparts):
            for position, column in found.ranked.items():
                places.setdefault(column, []).append((number, position))
        dictionaries: dict[str, pa.Array] = {}
        for column, of_column in places.items():
            stacked = pa.concat_arrays([columns[number][position] for number, position in of_column])
            rank, dictionaries[column] = values.ranked(stacked)
            ranked = pa.array(rank, mask=np.asarray(stacked.is_null()))
            length = len(stacked) // len(of_column)
            for index, (number, position) in enumerate(of_column):
                columns[number][position] = ranked.slice(index * length, length)
        return dictionaries


def _counterpart(partial: Partial, users: Sequence[Output], plan: Plan) -> Counterpart | None:
    """The counterpart of a partial that some outputs use. What they do not need is neither computed nor sent."""
    if not users:
        return PRESENT
    # A sum only needs to know whether there is a value, and Spark's sum is null if there is none.
    if isinstance(partial, Count) and all(isinstance(output.bound.aggregate, SumAggregate) for output in users):
        total = counterpart(users[0].bound.partials[0], plan.types, plan.grid.length)
        return None if total is None else presence(total.aggregates[0])
    return counterpart(partial, plan.types, plan.grid.length)


def _unsuitable(plan: Plan) -> str | None:
    """Why the rows themselves are needed, whatever the partials."""
    if plan.streaming:
        return "a stream keeps panes packed"
    if plan.over_time is None or len(plan.operators) > 1:
        return "windows over rows and sessions need the rows"
    if plan.device is not None:
        return ".device() makes them"
    if plan.layout.tuples is not None:
        return "some answers need the rows"
    if plan.late_row is not None:
        return ".late('emit') needs whole rows"
    if len(plan.layout.leaf_sets) > 1:
        return "custom aggregates are computed in Python"
    for feature in plan.features:
        if type(feature).on_map is not Feature.on_map:
            return f".{feature.name}() looks at every row or pane where panes are made"
    return None


def _column(rows: pa.Table, index: int) -> pa.Array:
    """A column of a table without chunks."""
    column = rows.column(index)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _order(codes: Int64Array, starts: Int64Array, length: int) -> Int64Array:
    """The order by key and start, of which no two are equal."""
    first = int(starts.min())
    panes = (int(starts.max()) - first) // length + 1
    if (int(codes.max()) + 1) * panes > _SPARSE * len(codes):
        return sort_order(codes, starts)
    place: Array = np.full((int(codes.max()) + 1) * panes, -1, dtype=np.int32 if len(codes) < 1 << 31 else np.int64)
    place[codes * panes + (starts - first) // length] = np.arange(len(codes))
    return place[place >= 0].astype(np.int64)
