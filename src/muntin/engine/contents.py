"""From closed windows to their tuples: which chunks they need, and which tuples of those each window holds."""

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
from muntin.holistic.contents import WindowContents
from muntin.holistic.function import HolisticFunction
from muntin.panes.table import Layout, PaneTable, merged_keys
from muntin.panes.tuples import Tuples, concatenated
from muntin.partials.values import of_type
from muntin.sizes import describe_size

OfContents: TypeAlias = Callable[[WindowContents], pa.Array]
"""One answer for each of some windows."""


@dataclass(frozen=True)
class Part:
    """Windows that are answered together: which of the answers, the tuples they are ranges of, and the ranges."""

    answers: Int64Array
    held: WindowContents


Cut: TypeAlias = Callable[[WindowContents, Answers, pa.RecordBatch], tuple[Int64Array, WindowContents] | None]
"""Which windows get fewer of their tuples than there are, and which those are; None if none does."""


class ShardTuples:
    """The tuples of a shard, for the windows that close with one batch.

    A chunk is opened when a window needs it, and only once: what was gathered for some windows serves the next ones.
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
        """`memory` are the tuples that are in no chunk, with the keys of `table`; None if the query keeps none."""
        self._schema = schema
        self._layout = layout
        self._operators = operators
        self._table = table
        self._kept = memory
        self._settled = finalized
        self._chunks = chunks
        self._gathered: _Gathered | None = None
        self.read_bytes = 0
        """Bytes of the tuples that windows were answered from."""
        self.cut: Cut | None = None
        """Cuts what windows get of their tuples, if a feature wants that."""

    @property
    def _memory(self) -> Tuples:
        assert self._kept is not None, "only queries that keep tuples are answered from them"
        return self._kept

    def values(self, operator: WindowOperator, answers: Answers) -> dict[str, pa.Array]:
        """What the holistic aggregates say of each window."""
        return self.computed(operator, answers, holistic(operator))

    def computed(
        self, operator: WindowOperator, answers: Answers, functions: Mapping[str, OfContents]
    ) -> dict[str, pa.Array]:
        """What functions of the tuples say of each window, by name."""
        if not functions:
            return {}
        found: dict[str, list[pa.Array]] = {name: [] for name in functions}
        places = []
        for part in self.parts(operator, answers):
            places.append(part.answers)
            for name, function in functions.items():
                found[name].append(function(part.held))
        back = np.argsort(np.concatenate(places), kind="stable")
        return {
            name: parts[0] if len(parts) == 1 else pa.concat_arrays(parts).take(pa.array(back))
            for name, parts in found.items()
        }

    def columns(self, tuples: Tuples, names: Sequence[str]) -> list[pa.Array]:
        """Columns of tuples, of which the time and the keys may be some."""
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
        """What a window is called in errors."""
        start, end = (f"{np.datetime64(int(edge[index]), 'us')}Z" for edge in (answers.start, answers.end))
        title = self._schema.windows[int(answers.model[index])].title
        return f"window {title} [{start}, {end}){self._key(int(answers.key[index]))}"

    def _key(self, code: int) -> str:
        keys = {shown(name): self._table.keys.column(name)[code].as_py() for name in self._schema.keys}
        return f" of key {keys}" if keys else ""

    def parts(self, operator: WindowOperator, answers: Answers) -> Iterator[Part]:
        """The windows with their tuples: of each model by itself, and of as many keys at a time as memory allows."""
        for of_keys in self._key_groups(operator, answers):
            if of_keys is None:
                chosen = np.arange(len(answers.key))
                gathered = self._gather(answers, None)
            else:
                chosen = np.flatnonzero(of_keys[answers.key])
                if not len(chosen):
                    continue
                gathered = self._gather(answers.take(chosen), of_keys)
            tuples, index = gathered.of(self._operators, operator)
            self.read_bytes += tuples.nbytes
            for model in np.unique(answers.model[chosen]):
                at = chosen[answers.model[chosen] == model]
                begin, end = self._ranges(index, answers.take(at))
                yield from self._shares(Part(at, WindowContents(tuples, begin, end)), answers)

    def _shares(self, part: Part, answers: Answers) -> Iterator[Part]:
        """The part as it is; or windows that get fewer of their tuples apart from the others."""
        cut = None if self.cut is None else self.cut(part.held, answers.take(part.answers), self._table.keys)
        if cut is None:
            yield part
            return
        chosen, held = cut
        yield Part(part.answers[chosen], held)
        rest = np.ones(len(part.answers), dtype=bool)
        rest[chosen] = False
        if rest.any():
            yield Part(part.answers[rest], WindowContents(part.held.tuples, part.held.begin[rest], part.held.end[rest]))

    def _ranges(self, index: LeafIndex, answers: Answers) -> tuple[Int64Array, Int64Array]:
        if answers.from_end is None:
            return index.ranges(answers.key, answers.start, answers.end)
        behind = index.first(answers.key, np.full(len(answers.key), self._settled))
        return behind - answers.from_end[0], behind - answers.from_end[1]

    def _gather(self, answers: Answers, of_keys: BoolArray | None) -> _Gathered:
        """All tuples that these windows may hold, and perhaps others. Numbered ones are counted from the end."""
        first = int(answers.start.min())
        last = int(answers.end.max()) if answers.from_end is None else self._settled
        needed = [] if self._chunks is None else self._chunks.overlapping(first, last)
        gathered = self._gathered if of_keys is None else None
        if gathered is None:
            memory = self._memory if of_keys is None else self._memory.take(of_keys[self._memory.key])
            gathered = _Gathered(frozenset(), memory.in_order())
        missing = [chunk for chunk in needed if chunk.name not in gathered.names]
        if missing:
            assert self._chunks is not None
            parts = []
            if of_keys is None:
                parts += _recoded(self._layout, self._table, [self._chunks.open(chunk) for chunk in missing])
            else:  # one after the other: there is not the memory for all of them
                for chunk in missing:
                    (tuples,) = _recoded(self._layout, self._table, [self._chunks.open(chunk)])
                    parts.append(tuples.take(of_keys[tuples.key]))
            parts.append(gathered.tuples)  # the latest: so those of one key mostly are in order as they are
            names = gathered.names | {chunk.name for chunk in missing}
            gathered = _Gathered(names, concatenated(parts).in_order())
        if of_keys is None:
            self._gathered = gathered
        return gathered

    def _key_groups(self, operator: WindowOperator, answers: Answers) -> list[BoolArray | None]:
        """All keys at once; under a limit of memory, as many at a time as fit."""
        if self._chunks is None or self._chunks.limit is None:
            return [None]
        limit = self._chunks.limit
        tuples = sum(chunk.tuples for chunk in self._chunks.chunks) + len(self._memory)
        raw = sum(chunk.raw for chunk in self._chunks.chunks) + self._memory.nbytes
        leaves = operator.own(self._table)[0]
        held = np.bincount(leaves.key, weights=leaves.state[0], minlength=self._table.keys.num_rows)
        # Leaves count the tuples that were dropped, too.
        tuples = max(tuples, int(held.sum())) if self._layout.weighs else tuples
        size = held * (raw / max(tuples, 1))
        if float(size.sum()) <= limit:
            return [None]
        answered = np.unique(answers.key)
        largest = int(answered[np.argmax(size[answered])])
        if size[largest] > limit:
            raise MuntinError(
                f"The {int(held[largest]):,} tuples in the windows{self._key(largest)} take about "
                f"{describe_size(float(size[largest]))}, more than the {describe_size(limit)} that memory= leaves to "
                f"each shard (shards: {self._chunks.shards}); give more memory, or use shorter windows or "
                "fewer columns."
            )
        groups: list[BoolArray | None] = []
        until = np.cumsum(size[answered])
        begin, before = 0, 0.0
        while begin < len(answered):
            end = max(int(np.searchsorted(until, before + limit, side="right")), begin + 1)
            of_keys = np.zeros(len(size), dtype=bool)
            of_keys[answered[begin:end]] = True
            groups.append(of_keys)
            begin, before = end, float(until[end - 1])
        return groups


def holistic(operator: WindowOperator) -> dict[str, OfContents]:
    """The holistic aggregates of a operator, as functions of the tuples."""
    return {
        output.name: partial(_computed, output.bound.holistic, output.bound.result)
        for output in operator.outputs
        if output.bound.holistic is not None
    }


def _computed(whole: HolisticFunction, result: pa.DataType, held: WindowContents) -> pa.Array:
    return of_type(whole.compute(held), result)


class _Gathered:
    """The tuples of some chunks and those in memory, in order; each operator sees those that it counts."""

    def __init__(self, names: frozenset[str], tuples: Tuples) -> None:
        self.names = names
        self.tuples = tuples
        self._views: dict[int, tuple[Tuples, LeafIndex]] = {}

    def of(self, operators: Sequence[WindowOperator], operator: WindowOperator) -> tuple[Tuples, LeafIndex]:
        number = next(i for i, each in enumerate(operators) if each is operator)
        if number not in self._views:
            tuples = self.tuples.take(self.tuples.of_operator(number))
            if isinstance(operator, DeltaOperator):  # which numbers tuples of one time by the column that it follows
                tuples = tuples.in_order(first=operator.window.column)
            self._views[number] = tuples, LeafIndex(tuples.key, tuples.time)
        return self._views[number]


def _recoded(layout: Layout, table: PaneTable, chunks: Sequence[PaneTable]) -> list[Tuples]:
    """The tuples of chunks with the codes of a table; without those of keys that the table does not have."""
    keys, (ours, *theirs) = merged_keys(layout, [table, *chunks])
    codes = np.full(keys.num_rows, -1, dtype=np.int64)
    codes[ours] = np.arange(len(ours))
    found = []
    for chunk, each in zip(chunks, theirs, strict=True):
        assert chunk.tuples is not None
        tuples = chunk.tuples.recoded(codes[each])
        found.append(tuples.take(tuples.key >= 0))
    return found
