"""Aggregates over the pairs of a join, where they cannot do without.

The pairs of a window and key come one after the other, in batches of many or in many batches. They go through the same
stages as the rows of a table: the window's number is a part of the key, and one window holds all times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.arrays import BoolArray
from muntin.joins.names import TIME
from muntin.panes import keys
from muntin.panes.table import PaneTable, key_columns, merge
from muntin.plan import Plan
from muntin.stages.pane_stage import PaneStage
from muntin.stages.table_stage import ALL_TIMES
from muntin.stages.taken import absorb
from muntin.stages.window_stage import answers, whole_windows
from muntin.windows import PaneWindow, TimeWindow

NUMBER = "window_id"
_ALL_TIME = TimeWindow(None, -(1 << 60), 1 << 61, 1 << 61)
"""One window that holds every time that Spark can tell."""
_MANY = 16
"""So many tables of a window that is not complete are made one."""


@dataclass(frozen=True)
class OverPairs:
    """From the pairs of a shard, as `Product` makes them, to the results of their windows."""

    window: PaneWindow
    plan: Plan
    """Over the pairs, per number of the window and key."""
    late_row: pa.DataType | None
    """The type of the column `late`, if rows that came too late are among the pairs: they pass by."""

    @classmethod
    def of(
        cls,
        window: PaneWindow,
        on: Sequence[str],
        types: Mapping[str, pa.DataType],
        aggregates: Mapping[str, Bound],
        late_row: pa.DataType | None,
    ) -> OverPairs:
        """`types` are those of all columns that the aggregates read, the keys, and the time of a pair."""
        plan = Plan.make(
            time=TIME,
            windows=(_ALL_TIME,),
            types={**types, NUMBER: pa.int64()},
            keys=(NUMBER, *on),
            aggregates=aggregates,
            shards=(0,),
        )
        return cls(window, plan, late_row)

    @cached_property
    def schema(self) -> pa.Schema:
        """Window and number, then the keys and the aggregates, as of any query."""
        result = self.plan.result_schema
        late = [] if self.late_row is None else [pa.field("late", self.late_row)]
        return pa.schema([result.field("window"), *list(result)[2:], *late])

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What is complete is answered at once: a task holds the pairs of one window and key, and of one batch."""
        stage = PaneStage(self.plan)
        held: list[PaneTable] = []
        last: list[pa.Array] | None = None
        for batch in batches:
            pairs = batch
            if self.late_row is not None:
                yield from self._late(batch)
                pairs = batch.filter(batch.column(NUMBER).is_valid())
            if not pairs.num_rows:
                continue
            pairs = stage.typed(pairs.select(list(self.plan.types)))
            columns = key_columns(pairs, self.plan.layout.keys)
            starts = np.flatnonzero(_new_group(columns, last))
            last = [column.slice(len(column) - 1) for column in columns]
            if len(starts):
                cut = int(starts[-1])
                held += _lifted(stage, pairs.slice(0, cut))
                yield from self._answered(held)
                held, pairs = [], pairs.slice(cut)
            held += _lifted(stage, pairs)
            if len(held) > _MANY:
                held = [merge(self.plan.layout, held)]
        yield from self._answered(held)

    def _answered(self, tables: Sequence[PaneTable]) -> Iterator[pa.RecordBatch]:
        if not tables:
            return
        taken = absorb(self.plan, None, merge(self.plan.layout, tables), *ALL_TIMES)
        assert taken is not None, "there are tables"
        whole = whole_windows(self.plan, taken, ALL_TIMES[1], None, None)
        for batch in answers(self.plan, taken, *ALL_TIMES, whole):
            yield self._told(batch.columns[2:], batch.num_rows)

    def _told(self, columns: Sequence[pa.Array], length: int) -> pa.RecordBatch:
        """The window itself in the place of the one that holds all times."""
        number = np.asarray(columns[0])
        kind = self.schema.field("window").type
        edges = [pa.array(edge(number)).cast(kind[0].type) for edge in (self.window.start, self.window.end)]
        late = [] if self.late_row is None else [pa.nulls(length, self.late_row)]
        bounds = pa.StructArray.from_arrays(edges, fields=list(kind))
        return pa.record_batch([bounds, *columns, *late], schema=self.schema)

    def _late(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Late rows as results of their own, without a window."""
        late = batch.filter(batch.column(NUMBER).is_null())
        if late.num_rows:
            known = {name: late.column(name) for name in (*self.plan.keys, "late")}
            columns = [known.get(f.name, pa.nulls(late.num_rows, f.type)).cast(f.type) for f in self.schema]
            yield pa.record_batch(columns, schema=self.schema)


def _lifted(stage: PaneStage, pairs: pa.RecordBatch) -> list[PaneTable]:
    if not pairs.num_rows:
        return []
    return [stage.lift(pairs, np.asarray(pairs.column(TIME).cast(pa.int64())))]


def _new_group(columns: Sequence[pa.Array], last: Sequence[pa.Array] | None) -> BoolArray:
    """Which pairs are of another window or key than the one before; `last` is the key of the one before the first."""
    length = len(columns[0])
    if last is None:
        codes, _ = keys.encode(columns, length)
        return np.append(True, codes[1:] != codes[:-1])
    codes, _ = keys.encode([pa.concat_arrays(pair) for pair in zip(last, columns, strict=True)], length + 1)
    return np.asarray(codes[1:] != codes[:-1])
