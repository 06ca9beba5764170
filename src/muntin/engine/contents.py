"""From closed windows to their tuples: which chunks to open, and the range of tuples of each window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Int64Array
from muntin.engine.chunks.store import ChunkStore
from muntin.engine.operators.delta import DeltaOperator
from muntin.engine.operators.leaf_index import LeafIndex
from muntin.engine.operators.operator import Answers, WindowOperator
from muntin.engine.schema import Schema
from muntin.errors import MuntinError
from muntin.expressions import shown
from muntin.holistic.applied import WindowOfKey
from muntin.holistic.contents import WindowContents
from muntin.holistic.function import HolisticFunction
from muntin.panes.table import Layout, PaneTable, merged_keys
from muntin.panes.tuples import Tuples, concatenated
from muntin.partials.values import of_type
from muntin.sizes import describe_size

OfContents: TypeAlias = Callable[[WindowContents], pa.Array]
"""Computes one answer per window."""


@dataclass(frozen=True)
class Part:
    """Windows that are answered together, and their contents."""

    answers: Int64Array
    """Their positions among all answers."""
    contents: WindowContents


Cut: TypeAlias = Callable[[WindowContents, Answers, pa.RecordBatch], tuple[Int64Array, WindowContents] | None]
"""The positions and the reduced contents of windows that get only some of their tuples; None if there are none."""


class ShardTuples:
    """The tuples of a shard, for the windows that close with one batch.

    A chunk is opened once, when a window needs it: tuples gathered for some windows are reused for the next ones.
    """

    def __init__(
        self,
        schema: Schema,
        layout: Layout,
        operators: Sequence[WindowOperator],
        table: PaneTable,
        memory: Tuples | None,
        finalized: int,
        chunks: ChunkStore | None = None,
    ) -> None:
        """`memory` are the tuples outside of chunks, with the keys of `table`; None if the query keeps no tuples."""
        self._schema = schema
        self._layout = layout
        self._operators = operators
        self._table = table
        self._kept = memory
        self._finalized = finalized
        self._chunks = chunks
        self._gathered: _Gathered | None = None
        self.read_bytes = 0
        """Bytes of the tuples that windows were answered from."""
        self.cut: Cut | None = None
        """Reduces the contents of windows, if a feature needs that."""

    @property
    def _memory(self) -> Tuples:
        assert self._kept is not None, "only queries that keep tuples are answered from them"
        return self._kept

    def computed(
        self, operator: WindowOperator, answers: Answers, functions: Mapping[str, OfContents]
    ) -> dict[str, pa.Array]:
        """The results of functions for each window, by name."""
        if not functions:
            return {}
        results: dict[str, list[pa.Array]] = {name: [] for name in functions}
        positions = []
        for part in self.parts(operator, answers):
            positions.append(part.answers)
            for name, function in functions.items():
                results[name].append(function(part.contents))
        order = np.argsort(np.concatenate(positions), kind="stable")
        return {
            name: arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays).take(pa.array(order))
            for name, arrays in results.items()
        }

    def columns(self, tuples: Tuples, names: Sequence[str]) -> list[pa.Array]:
        """Columns of tuples, by name; time and key columns are allowed."""
        schema = self._schema
        arrays = []
        for name in names:
            if name == schema.time:
                arrays.append(pa.array(tuples.time).cast(schema.types[name]))
            elif name in schema.keys:
                arrays.append(self._table.keys.column(name).take(pa.array(tuples.key)))
            else:
                arrays.append(tuples.columns.column(name))
        return arrays

    def title(self, answers: Answers, index: int) -> str:
        """The name of a window for error messages."""
        start, end = (f"{np.datetime64(int(edge[index]), 'us')}Z" for edge in (answers.start, answers.end))
        title = self._schema.windows[int(answers.model[index])].title
        return f"window {title} [{start}, {end}){self._key(int(answers.key[index]))}"

    def window_of_key(self, answers: Answers, index: int) -> WindowOfKey:
        """A window as functions get it."""
        schema, code = self._schema, int(answers.key[index])
        start, end = (
            pa.scalar(int(edge[index]), pa.int64()).cast(schema.types[schema.time]).as_py()
            for edge in (answers.start, answers.end)
        )
        key = tuple(self._table.keys.column(name)[code].as_py() for name in schema.keys)
        name = schema.windows[int(answers.model[index])].title
        return WindowOfKey(int(answers.window[index]), start, end, key, name)

    def _key(self, code: int) -> str:
        keys = {shown(name): self._table.keys.column(name)[code].as_py() for name in self._schema.keys}
        return f" of key {keys}" if keys else ""

    def parts(self, operator: WindowOperator, answers: Answers) -> Iterator[Part]:
        """The windows with their contents, model by model, and for as many keys at a time as fit in memory."""
        for is_in_group in self._key_groups(operator, answers):
            if is_in_group is None:
                positions = np.arange(len(answers.key))
                gathered = self._gather(answers, None)
            else:
                positions = np.flatnonzero(is_in_group[answers.key])
                if not len(positions):
                    continue
                gathered = self._gather(answers.take(positions), is_in_group)
            tuples, index = gathered.of(self._operators, operator)
            self.read_bytes += tuples.nbytes
            for model in np.unique(answers.model[positions]):
                of_model = positions[answers.model[positions] == model]
                begin, end = self._ranges(index, answers.take(of_model))
                yield from self._apply_cut(Part(of_model, WindowContents(tuples, begin, end)), answers)

    def _apply_cut(self, part: Part, answers: Answers) -> Iterator[Part]:
        """The part itself; or two parts: windows with reduced contents, and the others."""
        cut = None if self.cut is None else self.cut(part.contents, answers.take(part.answers), self._table.keys)
        if cut is None:
            yield part
            return
        positions, reduced = cut
        yield Part(part.answers[positions], reduced)
        is_uncut = np.ones(len(part.answers), dtype=bool)
        is_uncut[positions] = False
        if is_uncut.any():
            contents = part.contents
            uncut = WindowContents(contents.tuples, contents.begin[is_uncut], contents.end[is_uncut])
            yield Part(part.answers[is_uncut], uncut)

    def _ranges(self, index: LeafIndex, answers: Answers) -> tuple[Int64Array, Int64Array]:
        if answers.from_end is None:
            return index.ranges(answers.key, answers.start, answers.end)
        key_end = index.first(answers.key, np.full(len(answers.key), self._finalized))
        return key_end - answers.from_end[0], key_end - answers.from_end[1]

    def _gather(self, answers: Answers, is_in_group: BoolArray | None) -> _Gathered:
        """All tuples that these windows may contain, and possibly others; only of the keys in the group, if given."""
        first = int(answers.start.min())
        last = int(answers.end.max()) if answers.from_end is None else self._finalized
        needed = [] if self._chunks is None else self._chunks.overlapping(first, last)
        gathered = self._gathered if is_in_group is None else None
        if gathered is None:
            memory = self._memory if is_in_group is None else self._memory.take(is_in_group[self._memory.key])
            gathered = _Gathered(frozenset(), memory.in_order())
        missing = [chunk for chunk in needed if chunk.name not in gathered.names]
        if missing:
            assert self._chunks is not None
            parts = []
            if is_in_group is None:
                parts += _recoded(self._layout, self._table, [self._chunks.open(chunk) for chunk in missing])
            else:  # one chunk at a time: all of them would not fit in memory
                for chunk in missing:
                    (tuples,) = _recoded(self._layout, self._table, [self._chunks.open(chunk)])
                    parts.append(tuples.take(is_in_group[tuples.key]))
            parts.append(gathered.tuples)  # last, as they are the latest: so the tuples of a key are mostly in order
            names = gathered.names | {chunk.name for chunk in missing}
            gathered = _Gathered(names, concatenated(parts).in_order())
        if is_in_group is None:
            self._gathered = gathered
        return gathered

    def _key_groups(self, operator: WindowOperator, answers: Answers) -> list[BoolArray | None]:
        """Groups of keys whose tuples fit in memory, as masks; a single None for all keys at once."""
        if self._chunks is None or self._chunks.limit is None:
            return [None]
        limit = self._chunks.limit
        tuples = sum(chunk.tuples for chunk in self._chunks.chunks) + len(self._memory)
        raw = sum(chunk.raw for chunk in self._chunks.chunks) + self._memory.nbytes
        leaves = operator.own(self._table)[0]
        tuples_of_key = np.bincount(leaves.key, weights=leaves.state[0], minlength=self._table.keys.num_rows)
        # Leaves also count dropped tuples.
        tuples = max(tuples, int(tuples_of_key.sum())) if self._layout.weighs else tuples
        bytes_of_key = tuples_of_key * (raw / max(tuples, 1))
        if float(bytes_of_key.sum()) <= limit:
            return [None]
        answered = np.unique(answers.key)
        largest = int(answered[np.argmax(bytes_of_key[answered])])
        if bytes_of_key[largest] > limit:
            raise MuntinError(
                f"The {int(tuples_of_key[largest]):,} tuples in the windows{self._key(largest)} take about "
                f"{describe_size(float(bytes_of_key[largest]))}, more than the {describe_size(limit)} that memory= "
                f"leaves to each shard (shards: {self._chunks.shards}); give more memory, or use shorter windows or "
                "fewer columns."
            )
        groups: list[BoolArray | None] = []
        total_bytes = np.cumsum(bytes_of_key[answered])
        begin, before = 0, 0.0
        while begin < len(answered):
            end = max(int(np.searchsorted(total_bytes, before + limit, side="right")), begin + 1)
            is_in_group = np.zeros(len(bytes_of_key), dtype=bool)
            is_in_group[answered[begin:end]] = True
            groups.append(is_in_group)
            begin, before = end, float(total_bytes[end - 1])
        return groups


def holistic(operator: WindowOperator) -> dict[str, OfContents]:
    """The holistic aggregates of an operator, as functions of window contents."""
    return {
        output.name: partial(_computed, output.bound.holistic, output.bound.result)
        for output in operator.outputs
        if output.bound.holistic is not None
    }


def _computed(function: HolisticFunction, result: pa.DataType, contents: WindowContents) -> pa.Array:
    return of_type(function.compute(contents), result)


class _Gathered:
    """The tuples of some chunks and those in memory, in order. Each operator gets a view of those that it counts."""

    def __init__(self, names: frozenset[str], tuples: Tuples) -> None:
        self.names = names
        self.tuples = tuples
        self._views: dict[int, tuple[Tuples, LeafIndex]] = {}

    def of(self, operators: Sequence[WindowOperator], operator: WindowOperator) -> tuple[Tuples, LeafIndex]:
        number = next(i for i, candidate in enumerate(operators) if candidate is operator)
        if number not in self._views:
            tuples = self.tuples.take(self.tuples.of_operator(number))
            if isinstance(operator, DeltaOperator):  # it orders tuples of the same time by its column
                tuples = tuples.in_order(first=operator.window.column)
            self._views[number] = tuples, LeafIndex(tuples.key, tuples.time)
        return self._views[number]


def _recoded(layout: Layout, table: PaneTable, chunks: Sequence[PaneTable]) -> list[Tuples]:
    """The tuples of chunks with the key codes of a table, without tuples of other keys."""
    keys, (own_codes, *codes_of_chunks) = merged_keys(layout, [table, *chunks])
    codes = np.full(keys.num_rows, -1, dtype=np.int64)
    codes[own_codes] = np.arange(len(own_codes))
    recoded = []
    for chunk, chunk_codes in zip(chunks, codes_of_chunks, strict=True):
        assert chunk.tuples is not None
        tuples = chunk.tuples.recoded(codes[chunk_codes])
        recoded.append(tuples.take(tuples.key >= 0))
    return recoded
