"""The pane table: partials of many keys and panes, as arrays sorted by (key, time), and tuples kept as they are.

A table is what the pane stage sends, what a segment of the state holds and what the tree is built over. Tables are
values: nothing changes one once it is made.
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
    one per (key, pane) in which a tuple counts if it is commutative, else one per tuple. What is to be corrected
    because tuples were shed has leaves only where some were.
    """

    partials: tuple[Partial, ...]
    per_tuple: bool = False
    latest: bool = False
    """Whether the leaves of a key are written anew as a whole: of several tables, the last that has the key counts."""

    @property
    def of_shed(self) -> bool:
        """Whether its leaves are strata of which tuples were shed."""
        return self.partials[0].of_shed

    @property
    def custom(self) -> CustomPartial | None:
        only = self.partials[0]
        return only if isinstance(only, CustomPartial) else None

    def combine(self, left: State, right: State) -> State:
        """All the partials at once, over the concatenation of their fields."""
        return tuple(
            column for partial, fields in self.parts() for column in partial.combine(left[fields], right[fields])
        )

    def reduce(self, state: State, runs: Runs) -> State:
        if runs.size == len(runs.starts):  # one element each: nothing is to be done
            return runs.gathered(state)[0]
        return tuple(column for partial, fields in self.parts() for column in partial.reduce(state[fields], runs))

    def lift(self, rows: Rows) -> State:
        return tuple(column for partial in self.partials for column in partial.lift(rows))

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of tuples that `lift` reads."""
        return tuple(dict.fromkeys(column for partial in self.partials for column in partial.read))

    def empty(self) -> Leaves:
        none = np.zeros(0, dtype=np.int64)
        return Leaves(none, none, tuple(np.zeros(0, dtype=field.dtype) for field in self.fields))

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(field for partial in self.partials for field in partial.fields)

    def parts(self) -> tuple[tuple[Partial, slice], ...]:
        """Each partial with the slice of the fields that are its own."""
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
    """What a pane table of a query looks like: its key columns, its leaf sets, the columns of tuples that it keeps."""

    keys: pa.Schema
    leaf_sets: tuple[LeafSet, ...]
    tuples: pa.Schema | None = None
    """The columns of the tuples that are kept as they are, if any are; then every table has some, or none of them."""
    whole: bool = False
    """Whether tuples are kept for whole windows, beyond the time when they are settled."""

    @property
    def weighs(self) -> bool:
        """Whether tuples stand for others, which were dropped."""
        return self.tuples is not None and WEIGHT in self.tuples.names

    def no_tuples(self) -> Tuples | None:
        if self.tuples is None:
            return None
        none = np.zeros(0, dtype=np.int64)
        return Tuples(none, none, pa.record_batch([pa.array([], f.type) for f in self.tuples], schema=self.tuples))


@dataclass(frozen=True)
class Leaves:
    """The leaves of one leaf set: the code of the key, the time, the state.

    The time of a leaf is its pane's start, or its tuple's own. Where tuples are numbered, the number of the leaf's
    first tuple stands for the time.
    """

    key: Int64Array
    time: Int64Array
    state: State

    def __len__(self) -> int:
        return len(self.key)

    def take(self, chosen: Int64Array | BoolArray | slice) -> Leaves:
        if isinstance(chosen, np.ndarray) and chosen.dtype == bool:
            choose = chooser(np.asarray(chosen, dtype=bool))
            return Leaves(choose(self.key), choose(self.time), tuple(choose(column) for column in self.state))
        return Leaves(self.key[chosen], self.time[chosen], tuple(column[chosen] for column in self.state))

    @property
    def nbytes(self) -> int:
        return self.key.nbytes + self.time.nbytes + sum(column.nbytes for column in self.state)


@dataclass(frozen=True)
class PaneTable:
    """`keys` has the distinct keys, in the order of their codes; `dictionaries` the values behind ranks."""

    keys: pa.RecordBatch
    leaves: tuple[Leaves, ...]
    dictionaries: Mapping[str, pa.Array]
    tuples: Tuples | None = None

    @property
    def panes(self) -> Leaves:
        return self.leaves[0]

    @property
    def size(self) -> int:
        """How many leaves there are in all sets, and tuples beside them."""
        return sum(len(each) for each in self.leaves) + (0 if self.tuples is None else len(self.tuples))

    @property
    def nbytes(self) -> int:
        held = sum(each.nbytes for each in self.leaves) + (0 if self.tuples is None else self.tuples.nbytes)
        return held + int(self.keys.nbytes) + sum(int(each.nbytes) for each in self.dictionaries.values())

    def filter(self, kept: Sequence[BoolArray], tuples: BoolArray | None = None) -> PaneTable:
        """Only the leaves and the tuples that are marked, set by set; keys and dictionaries stay as they are."""
        chosen = tuple(
            leaves if mask.all() else leaves.take(mask) for leaves, mask in zip(self.leaves, kept, strict=True)
        )
        rest = self.tuples if self.tuples is None or tuples is None else self.tuples.take(tuples)
        return PaneTable(self.keys, chosen, self.dictionaries, rest)

    def only(self, tuples: BoolArray) -> PaneTable:
        """All leaves, and the tuples that are marked."""
        return self.filter([np.ones(len(each), dtype=bool) for each in self.leaves], tuples)

    def used_keys(self) -> BoolArray:
        """Which keys have a leaf or a tuple."""
        used = np.zeros(self.keys.num_rows, dtype=bool)
        for each in self.leaves:
            used[each.key[run_starts(each.key)]] = True
        if self.tuples is not None:
            used[self.tuples.key] = True
        return used


def key_columns(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    return [key_codes.normalised(batch.column(name)) for name in schema.names if name]


def key_batch(columns: Sequence[pa.Array], schema: pa.Schema, rows: Int64Array) -> pa.RecordBatch:
    """The distinct keys, taken at `rows`. Without key columns a nameless column counts the one key there is."""
    if not columns:
        return pa.record_batch([pa.nulls(len(rows))], schema=schema)
    chosen = pa.array(rows)
    return pa.record_batch([column.take(chosen) for column in columns], schema=schema)


def key_schema(fields: Sequence[pa.Field]) -> pa.Schema:
    return pa.schema(fields) if fields else pa.schema([pa.field("", pa.null())])


def merge(layout: Layout, tables: Sequence[PaneTable], *, overlay: bool = False) -> PaneTable:
    """One table of all the tuples behind `tables`, which are in the order in which they were made.

    With `overlay`, the later of several tables replaces a key's leaves in the sets that are written anew as a whole.
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
    kept = [table.tuples.recoded(recoded[t]) for t, table in enumerate(tables) if table.tuples is not None]
    return PaneTable(keys, tuple(leaves), dictionaries, concatenated(kept) if kept else None)


def _joined(parts: Sequence[Array]) -> Array:
    """One array of all parts, without a copy of the only one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _is_monotone(recoded: Sequence[Int64Array], filled: Sequence[int]) -> bool:
    """Whether the leaves of the only table that has any are still in order under their new codes."""
    return not filled or bool(np.all(np.diff(recoded[filled[0]]) > 0))


def _latest(leaves: Leaves, table: Int64Array, keys: int) -> Leaves:
    """Of each key the leaves from the last table that has any."""
    last = np.full(keys, -1, dtype=np.int64)
    np.maximum.at(last, leaves.key, table)
    return leaves.take(table == last[leaves.key])


def compacted(layout: Layout, table: PaneTable, slack: int | None = None) -> PaneTable:
    """The table without the keys and the dictionary values that no leaf uses, once those are the larger part.

    With a `slack` of 0 that is as soon as there are any keys without use.
    """
    keys, leaves, tuples = table.keys, table.leaves, table.tuples
    used = table.used_keys()
    count = int(used.sum())
    if keys.num_rows > (2 * count + _SLACK if slack is None else count + slack):
        recoded = np.cumsum(used) - 1
        keys = keys.filter(pa.array(used))
        leaves = tuple(Leaves(recoded[each.key], each.time, each.state) for each in leaves)
        tuples = None if tuples is None else tuples.recoded(recoded)
    dictionaries = dict(table.dictionaries)
    for column, dictionary in table.dictionaries.items():
        if len(dictionary) > 2 * table.size + _SLACK:
            dictionaries[column], leaves = _compacted_dictionary(layout, leaves, column, dictionary)
    return PaneTable(keys, leaves, dictionaries, tuples)


_SLACK = 1024
"""Below this there is nothing worth saving."""


def _compacted_dictionary(
    layout: Layout, leaves: tuple[Leaves, ...], column: str, dictionary: pa.Array
) -> tuple[pa.Array, tuple[Leaves, ...]]:
    used = np.zeros(len(dictionary), dtype=bool)
    for leaf_set, each in zip(layout.leaf_sets, leaves, strict=True):
        for field, ranks in zip(leaf_set.fields, each.state, strict=True):
            if field.dictionary == column:
                used[~ranks if field.inverted else ranks] = True
    new = {column: np.cumsum(used) - 1}
    changed = tuple(
        Leaves(
            each.key,
            each.time,
            tuple(
                _rerank(ranks, field, new) if field.dictionary == column else ranks
                for field, ranks in zip(leaf_set.fields, each.state, strict=True)
            ),
        )
        for leaf_set, each in zip(layout.leaf_sets, leaves, strict=True)
    )
    return dictionary.filter(pa.array(used)), changed


def arranged(leaf_set: LeafSet, leaves: Leaves) -> Leaves:
    """Leaves in order, and one of each (key, pane) where the set has one."""
    if _in_order(leaves):
        return leaves
    # Equal times of a per-tuple set go by their states: a fixed tie-break, whatever the order of arrival.
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
    """Whether every leaf comes behind the one before it, as where new tuples of a single key follow the old ones."""
    later = (leaves.key[1:] == leaves.key[:-1]) & (leaves.time[1:] > leaves.time[:-1])
    return bool(np.all(later | (leaves.key[1:] > leaves.key[:-1])))


def sort_order(key: Int64Array, time: Int64Array, ties: State = ()) -> Int64Array:
    if not ties:
        composite = composite_order(key, time, time)
        if composite is not None:
            return np.argsort(composite, kind="stable")  # linear where the input is a few sorted runs
    return np.lexsort((*reversed(ties), time, key))


def composite_order(key: Int64Array, time: Int64Array, span_of: Int64Array) -> Int64Array | None:
    """Key and time as one integer that sorts like the two, if they fit; `span_of` says which times must fit."""
    first = int(span_of.min())
    span = int(span_of.max()) - first + 1
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
        having = [t for t, table in enumerate(tables) if column in table.dictionaries]
        union[column], changed = union_ranked([tables[t].dictionaries[column] for t in having])
        for t, new in zip(having, changed, strict=True):
            ranks[t][column] = new
    return union, ranks


def _rerank(column: Array, field: Field, ranks: Mapping[str, Int64Array]) -> Array:
    if field.dictionary is None or not len(column):
        return column
    new = ranks[field.dictionary]
    return ~new[~column] if field.inverted else new[column]
