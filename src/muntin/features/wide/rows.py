"""From results, one row per window and key, to wide rows: one per key and end, with the columns of every window.

The windows of a key are in one shard. Those that end at the same time close in the same batch of it, and results come
in the order of their ends, so rows are complete as soon as later ends appear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Int64Array
from muntin.engine.schema import Schema
from muntin.features.wide.names import suffix
from muntin.panes.keys import Encoder, normalised

AS_OF = "as_of"
"""The column with the end of the windows: they contain the rows before it."""
_OF_WINDOW = ("window", "window_id", "window_name")
"""Columns of results that wide rows do without."""


@dataclass(frozen=True)
class WideRows:
    of: Schema
    """The schema of the results, one row per window and key."""

    @cached_property
    def schema(self) -> pa.Schema:
        fields = [pa.field(AS_OF, self.of.types[self.of.time]), *(self.of.results.field(key) for key in self.of.keys)]
        suffixes = [suffix(window) for window in self.of.windows]
        fields += [pa.field(f"{field.name}_{text}", field.type) for field in self._spread for text in suffixes]
        return pa.schema(fields)

    @cached_property
    def _spread(self) -> list[pa.Field]:
        """The fields that every window has."""
        return [field for field in self.of.results if field.name not in (*_OF_WINDOW, *self.of.keys)]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting, latest = list[pa.RecordBatch](), 0
        for batch in batches:
            if not batch.num_rows:
                continue
            ends = _ends(batch)
            if waiting and int(ends.min()) > latest:
                yield self._wide(waiting)
                waiting.clear()
            latest = max(latest, int(ends.max())) if waiting else int(ends.max())
            waiting.append(batch)
        if waiting:
            yield self._wide(waiting)

    def _wide(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.Table.from_batches(batches).combine_chunks()
        columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
        first, group = _groups(_ends(columns), [normalised(columns[key]) for key in self.of.keys])
        models = _models(columns, self.of)
        places = [_places(np.flatnonzero(models == model), group, len(first)) for model in range(len(self.of.windows))]
        heads = [columns["window"].field("end"), *(columns[key] for key in self.of.keys)]
        taken = [column.take(pa.array(first)) for column in heads]
        taken += [columns[field.name].take(place) for field in self._spread for place in places]
        return pa.record_batch(taken, schema=self.schema)


def _ends(rows: pa.RecordBatch | dict[str, pa.Array]) -> Int64Array:
    return np.asarray(rows["window"].field("end").cast(pa.int64()))


def _models(columns: dict[str, pa.Array], schema: Schema) -> Int64Array:
    """The place of each row's window among those of the query."""
    if len(schema.windows) == 1:
        return np.zeros(len(columns["window"]), dtype=np.int64)
    return np.asarray(pc.index_in(columns["window_name"], value_set=schema.titles)).astype(np.int64)


def _groups(ends: Int64Array, keys: list[pa.Array]) -> tuple[Int64Array, Int64Array]:
    """The first row of every end and key, in the order of ends, and the number of each row's group."""
    coded = Encoder().encode(keys, len(ends)).dense()
    _, end = np.unique(ends, return_inverse=True)
    _, first, group = np.unique(end * coded.count + coded.codes, return_index=True, return_inverse=True)
    return first, group


def _places(rows: Int64Array, group: Int64Array, groups: int) -> pa.Array:
    """For every group, its row among those of a window; null if there is none."""
    place = np.full(groups, -1)
    place[group[rows]] = rows
    return pa.array(place, mask=place < 0)
