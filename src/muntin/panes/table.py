"""The pane table: partials of many keys and panes, as arrays sorted by (key, time), and unaggregated tuples.

The pane stage sends tables, segments of the state contain them, and the tree is built over one. Tables are immutable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, BoolArray, Int64Array, Runs, State, chooser, run_starts
from muntin.panes import keys as key_codes
from muntin.panes.tuples import WEIGHT, Tuples, concatenated
from muntin.partials.custom import CustomPartial
from muntin.partials.partial import Field, Partial
from muntin.partials.rows import Rows
from muntin.partials.values import union_ranked


@dataclass(frozen=True)
class LeafSet:
    """Partials that share their leaves.

    Over panes of time, all built-in partials have one leaf per (key, pane). A custom partial has leaves of its own:
    one per (key, pane) in which a tuple counts if it is commutative, else one per tuple. Corrections for dropped tuples
    have leaves only where there are some.
    """

    partials: tuple[Partial, ...]
    per_tuple: bool = False
    latest: bool = False
    """Whether the leaves of a key are replaced together: of several tables, the last one with the key counts."""

    @property
    def of_incomplete(self) -> bool:
        """Whether its leaves are strata from which tuples were dropped."""
        return self.partials[0].of_incomplete

    @property
    def custom(self) -> CustomPartial | None:
        partial = self.partials[0]
        return partial if isinstance(partial, CustomPartial) else None

    def combine(self, left: State, right: State) -> State:
        """Combine all partials, over the concatenation of their fields."""
        return tuple(
            column for partial, fields in self.parts() for column in partial.combine(left[fields], right[fields])
        )

    def reduce(self, state: State, runs: Runs) -> State:
        if runs.size == len(runs.starts):  # one element each: nothing to combine
            return runs.gathered(state)[0]
        return tuple(column for partial, fields in self.parts() for column in partial.reduce(state[fields], runs))

    def lift(self, rows: Rows) -> State:
        return tuple(column for partial in self.partials for column in partial.lift(rows))

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of tuples that `lift` reads."""
        return tuple(dict.fromkeys(column for partial in self.partials for column in partial.read))

    def empty(self) -> Leaves:
        empty = np.zeros(0, dtype=np.int64)
        return Leaves(empty, empty, tuple(np.zeros(0, dtype=field.dtype) for field in self.fields))

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(field for partial in self.partials for field in partial.fields)

    def parts(self) -> tuple[tuple[Partial, slice], ...]:
        """Each partial with the slice of its fields."""
        return self._parts

    @cached_property
    def _parts(self) -> tuple[tuple[Partial, slice], ...]:
        parts, begin = [], 0
        for partial in self.partials:
            parts.append((partial, slice(begin, begin + len(partial.fields))))
            begin += len(partial.fields)
        return tuple(parts)


@dataclass(frozen=True)
class Layout:
    """The structure of a query's pane tables: key columns, leaf sets, and the columns of the tuples that are kept."""

    keys: pa.Schema
    leaf_sets: tuple[LeafSet, ...]
    tuples: pa.Schema | None = None
    """The columns of unaggregated tuples; None if the query keeps none. Otherwise every packed table has tuples."""
    keeps_tuples: bool = False
    """Whether tuples are kept for holistic aggregates, beyond the time when they are finalized."""

    @property
    def weighs(self) -> bool:
        """Whether tuples stand for others, which were dropped."""
        return self.tuples is not None and WEIGHT in self.tuples.names

    def no_tuples(self) -> Tuples | None:
        if self.tuples is None:
            return None
        empty = np.zeros(0, dtype=np.int64)
        return Tuples(empty, empty, pa.record_batch([pa.array([], f.type) for f in self.tuples], schema=self.tuples))


@dataclass(frozen=True)
class Leaves:
    """The leaves of one leaf set: the code of the key, the time, the state.

    The time of a leaf is its pane's start, or that of its tuple. Where tuples are numbered, it is the number of the
    leaf's first tuple.
    """

    key: Int64Array
    time: Int64Array
    state: State

    def __len__(self) -> int:
        return len(self.key)

    def take(self, selection: Int64Array | BoolArray | slice) -> Leaves:
        if isinstance(selection, np.ndarray) and selection.dtype == bool:
            select = chooser(np.asarray(selection, dtype=bool))
            return Leaves(select(self.key), select(self.time), tuple(select(column) for column in self.state))
        return Leaves(self.key[selection], self.time[selection], tuple(column[selection] for column in self.state))

    @property
    def nbytes(self) -> int:
        return self.key.nbytes + self.time.nbytes + sum(column.nbytes for column in self.state)


@dataclass(frozen=True)
class PaneTable:
    """`keys` are the distinct keys in the order of their codes, `dictionaries` the sorted values behind ranks."""

    keys: pa.RecordBatch
    leaves: tuple[Leaves, ...]
    dictionaries: Mapping[str, pa.Array]
    tuples: Tuples | None = None

    @property
    def panes(self) -> Leaves:
        return self.leaves[0]

    @property
    def size(self) -> int:
        """The number of leaves in all sets and of tuples."""
        return sum(len(leaves) for leaves in self.leaves) + (0 if self.tuples is None else len(self.tuples))

    @property
    def nbytes(self) -> int:
        rows = sum(leaves.nbytes for leaves in self.leaves) + (0 if self.tuples is None else self.tuples.nbytes)
        return rows + int(self.keys.nbytes) + sum(int(values.nbytes) for values in self.dictionaries.values())

    def filter(self, kept: Sequence[BoolArray], tuples: BoolArray | None = None) -> PaneTable:
        """Only the marked leaves, set by set, and the marked tuples; keys and dictionaries stay as they are."""
        kept_leaves = tuple(
            leaves if mask.all() else leaves.take(mask) for leaves, mask in zip(self.leaves, kept, strict=True)
        )
        kept_tuples = self.tuples if self.tuples is None or tuples is None else self.tuples.take(tuples)
        return PaneTable(self.keys, kept_leaves, self.dictionaries, kept_tuples)

    def only(self, tuples: BoolArray) -> PaneTable:
        """All leaves, and the marked tuples."""
        return self.filter([np.ones(len(leaves), dtype=bool) for leaves in self.leaves], tuples)

    def used_keys(self) -> BoolArray:
        """Which keys have a leaf or a tuple."""
        used = np.zeros(self.keys.num_rows, dtype=bool)
        for leaves in self.leaves:
            used[leaves.key[run_starts(leaves.key)]] = True
        if self.tuples is not None:
            used[self.tuples.key] = True
        return used


def key_columns(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    return [key_codes.normalised(batch.column(name)) for name in schema.names if name]


def key_batch(columns: Sequence[pa.Array], schema: pa.Schema, rows: Int64Array) -> pa.RecordBatch:
    """The distinct keys, taken at `rows`. Without key columns, a nameless null column represents the only key."""
    if not columns:
        return pa.record_batch([pa.nulls(len(rows))], schema=schema)
    positions = pa.array(rows)
    return pa.record_batch([column.take(positions) for column in columns], schema=schema)


def key_schema(fields: Sequence[pa.Field]) -> pa.Schema:
    return pa.schema(fields) if fields else pa.schema([pa.field("", pa.null())])


def merge(layout: Layout, tables: Sequence[PaneTable], *, overlay: bool = False) -> PaneTable:
    """One table of all the tuples behind `tables`, which must be in the order in which they were made.

    With `overlay`, later tables replace a key's leaves in sets that are marked `latest`.
    """
    tables = [table for table in tables if table.size] or list(tables[:1])
    if len(tables) == 1:
        return tables[0]
    keys, recoded = merged_keys(layout, tables)
    dictionaries, ranks = _merge_dictionaries(tables)
    leaves = []
    for index, leaf_set in enumerate(layout.leaf_sets):
        parts = [table.leaves[index] for table in tables]
        filled = [t for t, part in enumerate(parts) if len(part)]
        state = tuple(
            _joined([_rerank(parts[t].state[f], field, ranks[t]) for t in filled or [0]])
            for f, field in enumerate(leaf_set.fields)
        )
        key = _joined([recoded[t][parts[t].key] for t in filled or [0]])
        joined = Leaves(key, _joined([parts[t].time for t in filled or [0]]), state)
        if overlay and leaf_set.latest and len(filled) > 1:
            joined = _latest(joined, np.repeat(filled, [len(parts[t]) for t in filled]), keys.num_rows)
        leaves.append(joined if len(filled) < 2 and _is_monotone(recoded, filled) else arranged(leaf_set, joined))
    tuples = [table.tuples.recoded(recoded[t]) for t, table in enumerate(tables) if table.tuples is not None]
    return PaneTable(keys, tuple(leaves), dictionaries, concatenated(tuples) if tuples else None)


def _joined(parts: Sequence[Array]) -> Array:
    """All parts as one array; a single part is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _is_monotone(recoded: Sequence[Int64Array], filled: Sequence[int]) -> bool:
    """Whether the leaves of the only non-empty table are still in order under their new codes."""
    return not filled or bool(np.all(np.diff(recoded[filled[0]]) > 0))


def _latest(leaves: Leaves, table: Int64Array, keys: int) -> Leaves:
    """The leaves of each key from the last table that has any."""
    last = np.full(keys, -1, dtype=np.int64)
    np.maximum.at(last, leaves.key, table)
    return leaves.take(table == last[leaves.key])


def compacted(layout: Layout, table: PaneTable, slack: int | None = None) -> PaneTable:
    """The table without unused keys and dictionary values, once most are unused.

    With a `slack` of 0, any unused key is removed.
    """
    keys, leaves, tuples = table.keys, table.leaves, table.tuples
    used = table.used_keys()
    count = int(used.sum())
    if keys.num_rows > (2 * count + _SLACK if slack is None else count + slack):
        recoded = np.cumsum(used) - 1
        keys = keys.filter(pa.array(used))
        leaves = tuple(Leaves(recoded[old.key], old.time, old.state) for old in leaves)
        tuples = None if tuples is None else tuples.recoded(recoded)
    dictionaries = dict(table.dictionaries)
    for column, dictionary in table.dictionaries.items():
        if len(dictionary) > 2 * table.size + _SLACK:
            dictionaries[column], leaves = _compacted_dictionary(layout, leaves, column, dictionary)
    return PaneTable(keys, leaves, dictionaries, tuples)


_SLACK = 1024
"""Below this, compaction saves too little."""


def _compacted_dictionary(
    layout: Layout, leaves: tuple[Leaves, ...], column: str, dictionary: pa.Array
) -> tuple[pa.Array, tuple[Leaves, ...]]:
    used = np.zeros(len(dictionary), dtype=bool)
    for leaf_set, old in zip(layout.leaf_sets, leaves, strict=True):
        for field, ranks in zip(leaf_set.fields, old.state, strict=True):
            if field.dictionary == column:
                used[~ranks if field.inverted else ranks] = True
    new_ranks = {column: np.cumsum(used) - 1}
    reranked = tuple(
        Leaves(
            old.key,
            old.time,
            tuple(
                _rerank(ranks, field, new_ranks) if field.dictionary == column else ranks
                for field, ranks in zip(leaf_set.fields, old.state, strict=True)
            ),
        )
        for leaf_set, old in zip(layout.leaf_sets, leaves, strict=True)
    )
    return dictionary.filter(pa.array(used)), reranked


def arranged(leaf_set: LeafSet, leaves: Leaves) -> Leaves:
    """Leaves in order; those of one (key, pane) are combined, unless the set has one per tuple."""
    if _in_order(leaves):
        return leaves
    # States break ties in a per-tuple set, so that the order does not depend on the order of arrival.
    ties = leaves.state if leaf_set.per_tuple else ()
    order = sort_order(leaves.key, leaves.time, ties)
    leaves = leaves.take(order)
    if leaf_set.per_tuple:
        return leaves
    starts = run_starts(leaves.key, leaves.time)
    if len(starts) == len(leaves):
        return leaves
    return Leaves(leaves.key[starts], leaves.time[starts], leaf_set.reduce(leaves.state, Runs.of(starts, len(leaves))))


def _in_order(leaves: Leaves) -> bool:
    """Whether leaves are in strict order, as when new tuples of a single key follow the old ones."""
    is_later = (leaves.key[1:] == leaves.key[:-1]) & (leaves.time[1:] > leaves.time[:-1])
    return bool(np.all(is_later | (leaves.key[1:] > leaves.key[:-1])))


def sort_order(key: Int64Array, time: Int64Array, ties: State = ()) -> Int64Array:
    if not ties:
        composite = composite_order(key, time, time)
        if composite is not None:
            return np.argsort(composite, kind="stable")  # linear where the input is a few sorted runs
    return np.lexsort((*reversed(ties), time, key))


def composite_order(key: Int64Array, time: Int64Array, all_times: Int64Array) -> Int64Array | None:
    """Key and time as one integer that sorts like the two; None if a key with any of `all_times` would not fit."""
    first = int(all_times.min())
    span = int(all_times.max()) - first + 1
    if (int(key.max()) + 1) * span >= 1 << 62:
        return None
    return key * span + (time - first)


def merged_keys(layout: Layout, tables: Sequence[PaneTable]) -> tuple[pa.RecordBatch, list[Int64Array]]:
    if all(table.keys is tables[0].keys for table in tables):
        return tables[0].keys, [np.arange(tables[0].keys.num_rows)] * len(tables)
    stacked = pa.Table.from_batches([table.keys for table in tables], layout.keys).combine_chunks()
    columns = [stacked.column(name).combine_chunks() for name in layout.keys.names if name]
    codes, first = key_codes.encode(columns, stacked.num_rows)
    cuts = np.cumsum([table.keys.num_rows for table in tables])[:-1]
    return key_batch(columns, layout.keys, first), np.split(codes, cuts)


def _merge_dictionaries(tables: Sequence[PaneTable]) -> tuple[dict[str, pa.Array], list[dict[str, Int64Array]]]:
    union: dict[str, pa.Array] = {}
    ranks: list[dict[str, Int64Array]] = [{} for _ in tables]
    for column in dict.fromkeys(column for table in tables for column in table.dictionaries):
        sources = [t for t, table in enumerate(tables) if column in table.dictionaries]
        union[column], new_ranks = union_ranked([tables[t].dictionaries[column] for t in sources])
        for t, new in zip(sources, new_ranks, strict=True):
            ranks[t][column] = new
    return union, ranks


def _rerank(column: Array, field: Field, ranks: Mapping[str, Int64Array]) -> Array:
    if field.dictionary is None or not len(column):
        return column
    new = ranks[field.dictionary]
    return ~new[~column] if field.inverted else new[column]
