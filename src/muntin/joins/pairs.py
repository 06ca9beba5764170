"""Aggregates over the pairs of a join, for aggregates that need them.

The pairs of a window and key are consecutive, within a batch or over several. They go through the same stages as the
rows of a table: the window's number is a part of the key, and a single window has all times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.arrays import BoolArray
from muntin.engine.batch import Arrived
from muntin.engine.emitted import Results
from muntin.engine.map_stage import PaneStage
from muntin.engine.plan import Draft, Plan
from muntin.engine.schema import late_fields
from muntin.engine.shard import EVERYTHING, Shard
from muntin.engine.store import TableStore
from muntin.joins.names import PLACES, TIME, WEIGHTS
from muntin.panes import keys as key_codes
from muntin.panes.table import PaneTable, key_columns, merge
from muntin.panes.tuples import WEIGHT
from muntin.windows import PaneWindow, TimeWindow

if TYPE_CHECKING:
    from muntin.features.shedding.scaled import Measure
    from muntin.joins.kept_pairs import KeptPairs
    from muntin.joins.shed_pairs import PairEstimates

NUMBER = "window_id"
_ALL_TIME = TimeWindow(None, -(1 << 60), 1 << 61, 1 << 61)
"""A window with every time that Spark can represent."""
_MOST_PARTS = 16
"""The tables of an incomplete window are merged when there are more."""


@dataclass(frozen=True)
class OverPairs:
    """Computes the results of windows from the pairs of a shard, as `Product` makes them."""

    window: PaneWindow
    plan: Plan
    """The plan over the pairs, with the window's number as a key."""
    late_row: pa.DataType | None
    """The type of the column `late`, if late rows are among the pairs; they are passed on."""
    estimates: PairEstimates | None = None
    """Scales the results of kept pairs back to all pairs, if tuples are shed."""

    @classmethod
    def of(
        cls,
        window: PaneWindow,
        on: Sequence[str],
        types: Mapping[str, pa.DataType],
        aggregates: Mapping[str, Bound],
        late_row: pa.DataType | None,
        estimates: PairEstimates | None = None,
    ) -> OverPairs:
        """`types` are those of the columns that the aggregates read, of the keys, and of the time of a pair."""
        if estimates is not None:
            estimates.check_windows((window,), aggregates)
        draft = Draft(
            time=TIME,
            windows=(_ALL_TIME,),
            types={**types, NUMBER: pa.int64()},
            keys=(NUMBER, *on),
            aggregates=aggregates,
            shards=(0,),
            options=() if estimates is None else (estimates,),
        )
        return cls(window, draft.planned().plan(), late_row, estimates)

    @cached_property
    def schema(self) -> pa.Schema:
        """Window and number, then the keys and the aggregates, as for any query."""
        result = self.plan.result_schema
        return pa.schema([result.field("window"), *list(result)[2:], *self._late_fields])

    @cached_property
    def _late_fields(self) -> tuple[pa.Field, ...]:
        return () if self.late_row is None else late_fields(self.late_row, self.plan.types[TIME], several=False)

    @cached_property
    def read(self) -> tuple[str, ...]:
        """The columns of pairs that it needs."""
        of_estimates = () if self.estimates is None else (*WEIGHTS.values(), *PLACES.values())
        return (*self.plan.types, *of_estimates)

    @cached_property
    def _measures(self) -> tuple[Measure, ...]:
        """What is estimated for all pairs."""
        from muntin.joins.shed_pairs import measures

        return measures(self.plan)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Emit each group once it is complete: a task keeps the pairs of one window and key, and of one batch."""
        stage = PaneStage(self.plan)
        parts: list[_Lifted] = []
        last: list[pa.Array] | None = None
        for batch in batches:
            pairs = batch
            if self.late_row is not None:
                yield from self._late(batch)
                pairs = batch.filter(batch.column(NUMBER).is_valid())
            if not pairs.num_rows:
                continue
            pairs = stage.typed(pairs.select(list(self.read)))
            columns = key_columns(pairs, self.plan.layout.keys)
            starts = np.flatnonzero(_new_group(columns, last))
            last = [column.slice(len(column) - 1) for column in columns]
            if len(starts):
                cut = int(starts[-1])
                parts += self._lifted(stage, pairs.slice(0, cut))
                yield from self._results(parts)
                parts, pairs = [], pairs.slice(cut)
            parts += self._lifted(stage, pairs)
            if len(parts) > _MOST_PARTS:
                parts = [_Lifted.merged(self.plan, parts)]
        yield from self._results(parts)

    def _lifted(self, stage: PaneStage, pairs: pa.RecordBatch) -> list[_Lifted]:
        if not pairs.num_rows:
            return []
        kept = None
        if self.estimates is not None:
            kept = self.estimates.kept(self.plan, self._measures, pairs)
            left, right = (np.asarray(pairs.column(name)) for name in WEIGHTS.values())
            pairs = pairs.append_column(WEIGHT, pa.array(left * right))
        return [_Lifted(stage.lift(pairs, np.asarray(pairs.column(TIME).cast(pa.int64()))), kept)]

    def _results(self, parts: Sequence[_Lifted]) -> Iterator[pa.RecordBatch]:
        """The results of complete groups, computed as those of a table."""
        if not parts:
            return
        lifted = _Lifted.merged(self.plan, parts)
        plan = self.plan
        if self.estimates is not None and lifted.kept is not None:
            plan = replace(plan, features=(replace(self.estimates, pairs=lifted.kept),))
        for emitted in Shard(plan, TableStore(plan)).run(Arrived([lifted.table]), EVERYTHING):
            assert isinstance(emitted, Results), "pairs emit no jobs"
            yield self._in_windows(emitted.rows.columns[2:], emitted.rows.num_rows)

    def _in_windows(self, columns: Sequence[pa.Array], length: int) -> pa.RecordBatch:
        """The results with their own windows in the place of the one with all times."""
        number = np.asarray(columns[0])
        kind = self.schema.field("window").type
        edges = [pa.array(edge(number)).cast(kind[0].type) for edge in (self.window.start, self.window.end)]
        late = [pa.nulls(length, field.type) for field in self._late_fields]
        bounds = pa.StructArray.from_arrays(edges, fields=list(kind))
        return pa.record_batch([bounds, *columns, *late], schema=self.schema)

    def _late(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Late rows as results without a window."""
        late = batch.filter(batch.column(NUMBER).is_null())
        if late.num_rows:
            names = (*self.plan.keys, *(field.name for field in self._late_fields))
            known = {name: late.column(name) for name in names}
            columns = [known.get(f.name, pa.nulls(late.num_rows, f.type)).cast(f.type) for f in self.schema]
            yield pa.record_batch(columns, schema=self.schema)


@dataclass(frozen=True)
class _Lifted:
    """Pairs as partials, and the kept pairs that estimates need if tuples are shed."""

    table: PaneTable
    kept: KeptPairs | None

    @classmethod
    def merged(cls, plan: Plan, parts: Sequence[_Lifted]) -> _Lifted:
        kept = [part.kept for part in parts if part.kept is not None]
        return cls(merge(plan.layout, [part.table for part in parts]), kept[0].merged(kept) if kept else None)


def _new_group(columns: Sequence[pa.Array], last: Sequence[pa.Array] | None) -> BoolArray:
    """Which pairs begin a window or key; `last` is the key of the pair before the first."""
    length = len(columns[0])
    if last is None:
        codes, _ = key_codes.encode(columns, length)
        return np.append(True, codes[1:] != codes[:-1])
    codes, _ = key_codes.encode([pa.concat_arrays(pair) for pair in zip(last, columns, strict=True)], length + 1)
    return np.asarray(codes[1:] != codes[:-1])
