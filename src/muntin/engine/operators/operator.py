"""What all window operators have in common: they ingest tuples, say which windows close, and combine their leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.arrays import BoolArray, Int64Array, Runs, State
from muntin.engine.operators.parts import Parts
from muntin.panes.table import Layout, LeafSet, Leaves, PaneTable
from muntin.panes.tuples import Tuples
from muntin.panes.watermarks import Watermarks
from muntin.partials.values import of_type
from muntin.tree import FlatTree
from muntin.windows import Window

MOST_ANSWERS = 1 << 18
"""How many windows are answered at once, at most: this bounds the memory of a batch that closes very many."""
ALWAYS, NEVER_MORE = -(1 << 62), 1 << 62
"""The watermarks before the beginning and after the end of all times: a table is a stream between them."""


@dataclass(frozen=True)
class Output:
    """A named aggregate and where its partials are: the leaf set and the fields of each; a holistic one has none."""

    name: str
    bound: Bound
    slots: tuple[tuple[int, slice], ...]
    optional: bool = False
    """Whether the first field of its slot says if any tuple counts."""
    lazy: bool = False
    """Whether it is hidden, and only computed on request, for time windows."""


@dataclass(frozen=True)
class Answers:
    """Windows of keys, one per position: the model (an index into the plan's windows), the id and the key's code."""

    model: Int64Array
    window: Int64Array
    key: Int64Array
    start: Int64Array
    end: Int64Array
    partial: BoolArray | None = None
    """Which of them are incomplete; None if none can be."""
    from_end: tuple[Int64Array, Int64Array] | None = None
    """Where tuples are numbered: how far each window's begin and end are from the end of its key's finalized tuples.
    Otherwise a window contains the tuples in `[start, end)`."""
    tuples: tuple[Int64Array, Int64Array] | None = None
    """In a window job, where its tuples begin and end among those of the job."""
    alone: bool = False
    """Whether it is known that all are the same time window, of different keys in order."""

    def take(self, positions: Int64Array) -> Answers:
        model, window, key, start, end = (
            column[positions] for column in (self.model, self.window, self.key, self.start, self.end)
        )
        partial = None if self.partial is None else self.partial[positions]
        from_end, tuples = (
            None if edges is None else (edges[0][positions], edges[1][positions])
            for edges in (self.from_end, self.tuples)
        )
        return Answers(model, window, key, start, end, partial, from_end, tuples)


class LazyAggregates:
    """Aggregates of windows that are only computed on request. This base class has none."""

    def lowered(self) -> dict[str, pa.Array]:
        """The hidden aggregates."""
        return {}

    def incomplete(self) -> Int64Array:
        """The windows that contain strata with dropped tuples, if those have leaves of their own; in order."""
        return np.zeros(0, dtype=np.int64)

    def states(self, positions: Int64Array) -> dict[str, tuple[State, ...]]:
        """The combined partials of hidden aggregates, for the windows at these positions, in order."""
        return {}


@dataclass(frozen=True)
class LazyOfSome(LazyAggregates):
    """The lazy aggregates of some of the windows."""

    of_all: LazyAggregates
    windows: Int64Array

    def lowered(self) -> dict[str, pa.Array]:
        return {name: values.take(pa.array(self.windows)) for name, values in self.of_all.lowered().items()}

    def incomplete(self) -> Int64Array:
        incomplete = self.of_all.incomplete()
        return np.flatnonzero(np.isin(self.windows, incomplete, assume_unique=True))

    def states(self, positions: Int64Array) -> dict[str, tuple[State, ...]]:
        return self.of_all.states(self.windows[positions])


@dataclass(frozen=True)
class Closing:
    """Windows that close together."""

    answers: Answers
    leaves: tuple[Int64Array, Int64Array] | None = None
    """The leaves `[begin, end)` of each window; None where they follow from its start and end."""

    def take(self, positions: Int64Array) -> Closing:
        leaves = None if self.leaves is None else (self.leaves[0][positions], self.leaves[1][positions])
        return Closing(self.answers.take(positions), leaves)


@dataclass(frozen=True)
class Combined:
    """Windows with their decomposable aggregates."""

    answers: Answers
    values: Mapping[str, pa.Array]
    lazy: LazyAggregates


class Share(Protocol):
    """The windows of a model that one of several workers answers."""

    def owns(self, ids: Int64Array) -> BoolArray: ...

    def owns_session(self, starts: Int64Array) -> BoolArray: ...


class WindowReader(Protocol):
    """The windows of one operator over one pane table."""

    def closing(self, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        """The windows that close when the operator's watermark moves from `after` to `until`, in order, in batches.

        With `numbered`, their ranges of numbered tuples are included.
        """
        ...

    def combined(self, closing: Closing) -> Iterator[Combined]:
        """Their decomposable aggregates, in window order."""
        ...


@dataclass(frozen=True)
class WindowOperator(ABC):
    """Some windows of a query, and the leaves that answer them. It is stateless: the data is in the pane table."""

    windows: tuple[tuple[int, Window], ...]
    """Each with its index among the plan's windows."""
    first_set: int
    """The index of its first leaf set in the layout."""
    leaf_sets: tuple[LeafSet, ...]
    outputs: tuple[Output, ...]

    share: Share | None = None
    """The windows that it answers, where workers share them and the windows themselves are not split."""

    needs_order = False
    """Whether it needs tuples in their final order: then they wait in the state until they are finalized."""

    @cached_property
    def bounds(self) -> dict[str, Bound]:
        """The aggregates by their names."""
        return {output.name: output.bound for output in self.outputs}

    def own(self, table: PaneTable) -> tuple[Leaves, ...]:
        """Its leaves."""
        return table.leaves[self.first_set : self.first_set + len(self.leaf_sets)]

    def closes_at(self, watermarks: Watermarks) -> int:
        """The watermark that closes its windows."""
        return watermarks.finalized if self.needs_order else watermarks.watermark

    @abstractmethod
    def reader(self, table: PaneTable) -> WindowReader:
        """The windows over a table."""

    @abstractmethod
    def leaf_ranges(self, table: PaneTable, closing: Closing) -> list[tuple[Int64Array, Int64Array]]:
        """The leaves `[begin, end)` of each window, in every set of the operator."""

    @abstractmethod
    def open(self, leaves: Sequence[Leaves], watermark: int) -> list[BoolArray]:
        """Which leaves windows that are open at the watermark may still need."""

    def ends(self, leaves: Sequence[Leaves]) -> int:
        """A watermark at which none of the leaves is needed any more."""
        return NEVER_MORE


@dataclass(frozen=True)
class Arrival:
    """The tuples of a batch, with the key codes of a table."""

    tuples: Tuples
    """The waiting and the newly arrived tuples, in any order."""
    fresh: BoolArray
    """Which of them are newly arrived. Some may be too late for some of the windows."""
    finalized: Tuples
    """The tuples that are finalized with this batch, in order: no tuple can arrive before or between them later."""
    finalized_at: Int64Array
    """Their positions among `tuples`."""
    closed: int
    """The watermark of the batch before."""


@dataclass(frozen=True)
class OperatorLeaves:
    """The leaves that an operator made of tuples."""

    table: PaneTable
    invalid: Int64Array | None = None
    """The invalid tuples that it set aside, by their positions among the finalized ones."""


@dataclass(frozen=True)
class TupleOperator(WindowOperator):
    """An operator that makes its leaves from tuples. It has one leaf set, with all aggregates."""

    @property
    def leaf_set(self) -> LeafSet:
        return self.leaf_sets[0]

    @abstractmethod
    def ingest_tuples(self, layout: Layout, table: PaneTable, arrival: Arrival) -> OperatorLeaves | None:
        """The leaves that tuples add to the table; None if there are none."""

    def table_of(
        self, layout: Layout, table: PaneTable, leaves: Leaves, dictionaries: dict[str, pa.Array]
    ) -> PaneTable:
        """A table with only these leaves, and the keys of `table`."""
        leaves_of_sets = [
            leaves if index == self.first_set else leaf_set.empty() for index, leaf_set in enumerate(layout.leaf_sets)
        ]
        return PaneTable(table.keys, tuple(leaves_of_sets), dictionaries, layout.no_tuples())

    @abstractmethod
    def closing(self, table: PaneTable, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        """The windows that close, see `WindowReader.closing`."""

    def reader(self, table: PaneTable) -> WindowReader:
        return TupleReader(self, table)

    def leaf_ranges(self, table: PaneTable, closing: Closing) -> list[tuple[Int64Array, Int64Array]]:
        assert closing.leaves is not None
        return [closing.leaves]

    @cached_property
    def used_parts(self) -> Parts:
        """The partials that aggregates need: the operator's own notes are not combined."""
        return Parts.of(self.leaf_set, {fields.start for output in self.outputs for _, fields in output.slots})


@dataclass(frozen=True)
class TupleReader:
    """The windows of a tuple operator over one table. Each is a range of leaves."""

    operator: TupleOperator
    table: PaneTable

    def closing(self, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        yield from self.operator.closing(self.table, after, until, numbered)

    def combined(self, closing: Closing) -> Iterator[Combined]:
        assert closing.leaves is not None
        answers, (begin, end) = closing.answers, closing.leaves
        if not len(begin):
            return
        order = np.lexsort((answers.key, answers.start, answers.end))
        used_parts = self.operator.used_parts
        tree = None
        if used_parts:
            state = used_parts.state(self.operator.own(self.table)[0].state)
            leaves, begin, end = pieces(state, used_parts.leaf_set.reduce, begin, end)
            tree = FlatTree(leaves, used_parts.leaf_set.combine, int((end - begin).max()))
        for first in range(0, len(order), MOST_ANSWERS):
            positions = order[first : first + MOST_ANSWERS]
            parts = {} if tree is None else used_parts.by_field(tree.ranges(begin[positions], end[positions]))
            yield Combined(answers.take(positions), self._lowered(parts, len(positions)), LazyAggregates())

    def _lowered(self, parts: Mapping[int, State], count: int) -> dict[str, pa.Array]:
        """The decomposable aggregates. `parts` are the states of partials, by where their fields begin in the set."""
        values = {}
        for output in self.operator.outputs:
            if output.bound.holistic is not None:
                continue
            states, filled = [parts[fields.start] for _, fields in output.slots], None
            if output.optional:
                ((present, *columns),) = states
                filled = None if present.all() else np.flatnonzero(present)
                states = [tuple(columns) if filled is None else tuple(column[filled] for column in columns)]
            values[output.name] = lowered(output, states, filled, count, self.table)
        return values


FEW_EDGES = 8
"""Where windows have fewer than one edge per this many leaves, leaves between edges are reduced first."""


def pieces(
    leaves: State, reduce: Callable[[State, Runs], State], begin: Int64Array, end: Int64Array
) -> tuple[State, Int64Array, Int64Array]:
    """Reduce the leaves between neighbouring edges to one, and return the windows as ranges of those.

    Where every tuple has a leaf and windows are few, this takes one pass instead of all levels of a tree.
    """
    if 2 * len(begin) * FEW_EDGES > len(leaves[0]):
        return leaves, begin, end
    edges = np.unique(np.concatenate([begin, end]))
    starts = edges[:-1] if edges[-1] == len(leaves[0]) else edges
    runs = Runs.of(starts - starts[0], len(leaves[0]) - int(starts[0]))
    reduced = reduce(tuple(column[starts[0] :] for column in leaves), runs)
    return reduced, np.searchsorted(edges, begin), np.searchsorted(edges, end)


def lowered(
    output: Output, parts: Sequence[State], filled: Int64Array | None, length: int, table: PaneTable
) -> pa.Array:
    """The answers of one aggregate. It is null for windows without a tuple that counts; `filled` are the others."""
    if filled is not None and not len(filled):
        return pa.nulls(length, output.bound.result)
    values = of_type(output.bound.lower(parts, table.dictionaries), output.bound.result)
    if filled is None:
        return values
    indices = np.full(length, -1)
    indices[filled] = np.arange(len(filled))
    return values.take(pa.array(indices, mask=indices < 0))
