"""The pane table: partials of many keys and panes, as arrays sorted by (key, time), and unaggregated tuples.

The pane stage sends tables, segments of the state contain them, and the tree is built over one. Tables are immutable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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

    def recoded(self, codes: Int64Array) -> Leaves:
        """The same leaves under new key codes, which are in the order of the old ones."""
        return Leaves(codes[self.key], self.time, self.state)

    @property
    def used_codes(self) -> Int64Array:
        """The codes of keys with leaves."""
        return self.key[run_starts(self.key)]

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

    def filter(self, kept: Sequence[BoolArray | None], tuples: BoolArray | None = None) -> PaneTable:
        """Only the marked leaves, set by set (all of a set without marks), and the marked tuples.

        Keys and dictionaries stay as they are.
        """
        kept_leaves = tuple(
            leaves if mask is None or mask.all() else leaves.take(mask)
            for leaves, mask in zip(self.leaves, kept, strict=True)
        )
        kept_tuples = self.tuples if self.tuples is None or tuples is None else self.tuples.take(tuples)
        return PaneTable(self.keys, kept_leaves, self.dictionaries, kept_tuples)

    def only(self, tuples: BoolArray) -> PaneTable:
        """All leaves, and the marked tuples."""
        return self if self.tuples is None else replace(self, tuples=self.tuples.take(tuples))

    def used_keys(self) -> BoolArray:
        """Which keys have a leaf or a tuple."""
        used = np.zeros(self.keys.num_rows, dtype=bool)
        for leaves in self.leaves:
            used[leaves.used_codes] = True
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
    union = Union.of(layout, tables)
    leaves = tuple(union.merged(index, leaf_set, overlay=overlay) for index, leaf_set in enumerate(layout.leaf_sets))
    return union.table(leaves)


@dataclass(frozen=True)
class Union:
    """The keys and dictionaries of several tables as one, with the new codes and ranks of each table."""

    tables: Sequence[PaneTable]
    keys: pa.RecordBatch
    recoded: Sequence[Int64Array]
    dictionaries: Mapping[str, pa.Array]
    ranks: Sequence[Mapping[str, Int64Array]]

    @classmethod
    def of(cls, layout: Layout, tables: Sequence[PaneTable]) -> Union:
        keys, recoded = merged_keys(layout, tables)
        dictionaries, ranks = _merge_dictionaries(tables)
        return cls(tables, keys, recoded, dictionaries, ranks)

    def table(self, leaves: tuple[Leaves, ...]) -> PaneTable:
        """A table of these leaves, and of all tuples."""
        tuples = [
            table.tuples.recoded(codes)
            for table, codes in zip(self.tables, self.recoded, strict=True)
            if table.tuples is not None
        ]
        return PaneTable(self.keys, leaves, self.dictionaries, concatenated(tuples) if tuples else None)

    def of_table(self, t: int, index: int, leaf_set: LeafSet) -> Leaves:
        """The leaves of one set of one table, with their new codes and ranks."""
        leaves = self.tables[t].leaves[index]
        columns = zip(leaf_set.fields, leaves.state, strict=True)
        state = tuple(reranked(column, field, self.ranks[t]) for field, column in columns)
        return Leaves(self.recoded[t][leaves.key], leaves.time, state)

    def merged(self, index: int, leaf_set: LeafSet, *, overlay: bool = False) -> Leaves:
        """The leaves of one set of all tables, in order."""
        parts = [table.leaves[index] for table in self.tables]
        filled = [t for t, part in enumerate(parts) if len(part)]
        if len(filled) == 1 and self._is_unchanged(filled[0]):
            return parts[filled[0]]
        recoded = [self.of_table(t, index, leaf_set) for t in filled or [0]]
        key, time = (_joined([getattr(leaves, name) for leaves in recoded]) for name in ("key", "time"))
        joined = Leaves(key, time, tuple(map(_joined, zip(*(leaves.state for leaves in recoded), strict=True))))
        if overlay and leaf_set.latest and len(filled) > 1:
            joined = _latest(joined, np.repeat(filled, [len(parts[t]) for t in filled]), self.keys.num_rows)
        return joined if len(filled) < 2 and _is_monotone(self.recoded, filled) else arranged(leaf_set, joined)

    def _is_unchanged(self, t: int) -> bool:
        """Whether the leaves of a table have the codes and ranks that they had."""
        table = self.tables[t]
        same_ranks = (len(self.dictionaries[name]) == len(values) for name, values in table.dictionaries.items())
        return table.keys is self.keys and all(same_ranks)


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
    used = table.used_keys() if slack is not None or keys.num_rows > _SLACK else None
    count = keys.num_rows if used is None else int(used.sum())
    if used is not None and keys.num_rows > (2 * count + _SLACK if slack is None else count + slack):
        recoded = np.cumsum(used) - 1
        keys = keys.filter(pa.array(used))
        leaves = tuple(old.recoded(recoded) for old in leaves)
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
    new_leaves = tuple(
        Leaves(
            old.key,
            old.time,
            tuple(
                reranked(ranks, field, new_ranks) if field.dictionary == column else ranks
                for field, ranks in zip(leaf_set.fields, old.state, strict=True)
            ),
        )
        for leaf_set, old in zip(layout.leaf_sets, leaves, strict=True)
    )
    return dictionary.filter(pa.array(used)), new_leaves


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


def reranked(column: Array, field: Field, ranks: Mapping[str, Int64Array]) -> Array:
    if field.dictionary is None or not len(column):
        return column
    new = ranks[field.dictionary]
    return ~new[~column] if field.inverted else new[column]
