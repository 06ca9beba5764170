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

MOST_ANSWERS = 1 << 20
"""How many windows of keys are answered at once: what bounds the memory of a batch that closes very many."""
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
    """Whether it is hidden, and only computed for windows that it is asked of, where those are over panes of time."""


@dataclass(frozen=True)
class Answers:
    """Windows of keys, one per position: the model (an index into the plan's windows), the id and the key's code."""

    model: Int64Array
    window: Int64Array
    key: Int64Array
    start: Int64Array
    end: Int64Array
    partial: BoolArray | None = None
    """Which of them are incomplete; None if that cannot be."""
    from_end: tuple[Int64Array, Int64Array] | None = None
    """Where tuples are numbered: how far each window begins and ends before the end of the settled tuples of its key.
    Elsewhere a window holds the tuples from its start on and before its end."""
    tuples: tuple[Int64Array, Int64Array] | None = None
    """In a window job, where its tuples begin and end among those of the job."""
    alone: bool = False
    """Whether it is known that all are of one window over time, each of another key, in order."""

    def take(self, chosen: Int64Array) -> Answers:
        model, window, key, start, end = (
            column[chosen] for column in (self.model, self.window, self.key, self.start, self.end)
        )
        partial = None if self.partial is None else self.partial[chosen]
        from_end, tuples = (
            None if edges is None else (edges[0][chosen], edges[1][chosen]) for edges in (self.from_end, self.tuples)
        )
        return Answers(model, window, key, start, end, partial, from_end, tuples)


class LazyAggregates:
    """What is said of windows only when somebody asks: of these, nothing is left to be said."""

    def lowered(self) -> dict[str, pa.Array]:
        """The hidden aggregates."""
        return {}

    def shed(self) -> Int64Array:
        """Which windows hold strata of which tuples were shed, where those have leaves of their own; in order."""
        return np.zeros(0, dtype=np.int64)

    def states(self, chosen: Int64Array) -> dict[str, tuple[State, ...]]:
        """What the partials of hidden aggregates come to in some windows, in order."""
        return {}


@dataclass(frozen=True)
class LazyOfSome(LazyAggregates):
    """The same for some of the windows."""

    of_all: LazyAggregates
    windows: Int64Array

    def lowered(self) -> dict[str, pa.Array]:
        return {name: values.take(pa.array(self.windows)) for name, values in self.of_all.lowered().items()}

    def shed(self) -> Int64Array:
        shed = self.of_all.shed()
        return np.flatnonzero(np.isin(self.windows, shed, assume_unique=True))

    def states(self, chosen: Int64Array) -> dict[str, tuple[State, ...]]:
        return self.of_all.states(self.windows[chosen])


@dataclass(frozen=True)
class Closing:
    """Windows that close together."""

    answers: Answers
    leaves: tuple[Int64Array, Int64Array] | None = None
    """Which leaves each is answered from, `[begin, end)`; None where their times tell."""

    def take(self, chosen: Int64Array) -> Closing:
        leaves = None if self.leaves is None else (self.leaves[0][chosen], self.leaves[1][chosen])
        return Closing(self.answers.take(chosen), leaves)


@dataclass(frozen=True)
class Combined:
    """Windows whose decomposable aggregates are known."""

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
        """The windows that close when the operator's mark moves from `after` to `until`, some at a time, in order.

        `numbered` asks where their tuples are, where those are numbered.
        """
        ...

    def combined(self, closing: Closing) -> Iterator[Combined]:
        """Their decomposable aggregates, in window order."""
        ...


@dataclass(frozen=True)
class WindowOperator(ABC):
    """Some of a query's windows and what they are answered from. It holds no data: those are in the pane table."""

    windows: tuple[tuple[int, Window], ...]
    """Each with its index among the plan's windows."""
    first_set: int
    """The index of its first leaf set in the layout."""
    leaf_sets: tuple[LeafSet, ...]
    outputs: tuple[Output, ...]

    share: Share | None = None
    """Which of the windows it answers, where several workers share them and its windows do not say it themselves."""

    needs_order = False
    """Whether it needs tuples in their final order: they wait, as they are, until they are settled."""

    @cached_property
    def bounds(self) -> dict[str, Bound]:
        """The aggregates by their names."""
        return {output.name: output.bound for output in self.outputs}

    def own(self, table: PaneTable) -> tuple[Leaves, ...]:
        """Its leaves."""
        return table.leaves[self.first_set : self.first_set + len(self.leaf_sets)]

    def mark(self, marks: Watermarks) -> int:
        """The mark that its windows close with."""
        return marks.finalized if self.needs_order else marks.watermark

    @abstractmethod
    def reader(self, table: PaneTable) -> WindowReader:
        """The windows over a table."""

    @abstractmethod
    def leaf_ranges(self, table: PaneTable, closing: Closing) -> list[tuple[Int64Array, Int64Array]]:
        """The leaves `[begin, end)` that each window is answered from, in every set of the operator."""

    @abstractmethod
    def open(self, leaves: Sequence[Leaves], watermark: int) -> list[BoolArray]:
        """Which leaves some window may still need that has not closed by the watermark."""

    def ends(self, leaves: Sequence[Leaves]) -> int:
        """At which watermark surely no leaf is needed any more."""
        return NEVER_MORE


@dataclass(frozen=True)
class Arrival:
    """The tuples of a batch, in a table's codes of keys."""

    tuples: Tuples
    """Those that wait and those that have just arrived, in any order."""
    fresh: BoolArray
    """Which of them have just arrived. Some may be too late for some of the windows."""
    finalized: Tuples
    """Those that are settled with this batch, in order: no other tuple will come between them or before them."""
    finalized_at: Int64Array
    """Where each of the settled ones is among all."""
    closed: int
    """The watermark of the batch before."""


@dataclass(frozen=True)
class OperatorLeaves:
    """What a operator made of tuples."""

    table: PaneTable
    bad: Int64Array | None = None
    """The tuples that it set aside, by where they are among the settled ones."""


@dataclass(frozen=True)
class TupleOperator(WindowOperator):
    """A operator that makes its leaves, of one set, from tuples; every aggregate is in that set."""

    @property
    def leaf_set(self) -> LeafSet:
        return self.leaf_sets[0]

    @abstractmethod
    def ingest_tuples(self, layout: Layout, table: PaneTable, arrival: Arrival) -> OperatorLeaves | None:
        """The leaves that tuples add to the table; None if there are none."""

    def table_of(
        self, layout: Layout, table: PaneTable, leaves: Leaves, dictionaries: dict[str, pa.Array]
    ) -> PaneTable:
        """A table of these leaves alone, with the keys of `table`."""
        every = [leaves if i == self.first_set else each.empty() for i, each in enumerate(layout.leaf_sets)]
        return PaneTable(table.keys, tuple(every), dictionaries, layout.no_tuples())

    @abstractmethod
    def closing(self, table: PaneTable, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        """The windows that close, as of a reader."""

    def reader(self, table: PaneTable) -> WindowReader:
        return TupleReader(self, table)

    def leaf_ranges(self, table: PaneTable, closing: Closing) -> list[tuple[Int64Array, Int64Array]]:
        assert closing.leaves is not None
        return [closing.leaves]

    @cached_property
    def used_parts(self) -> Parts:
        """The partials that aggregates need: what an operator notes for itself has no place in the tree."""
        return Parts.of(self.leaf_set, {fields.start for output in self.outputs for _, fields in output.slots})


@dataclass(frozen=True)
class TupleReader:
    """The windows of a tuple operator over one table: each is a range of leaves."""

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
        used = self.operator.used_parts
        tree = None
        if used:
            state = used.state(self.operator.own(self.table)[0].state)
            leaves, begin, end = pieces(state, used.leaf_set.reduce, begin, end)
            tree = FlatTree(leaves, used.leaf_set.combine, int((end - begin).max()))
        for first in range(0, len(order), MOST_ANSWERS):
            positions = order[first : first + MOST_ANSWERS]
            parts = {} if tree is None else used.by_field(tree.ranges(begin[positions], end[positions]))
            yield Combined(answers.take(positions), self._lowered(parts, len(positions)), LazyAggregates())

    def _lowered(self, parts: Mapping[int, State], count: int) -> dict[str, pa.Array]:
        """The decomposable aggregates; `parts` are the states of partials, by where their fields begin in the set."""
        values = {}
        for output in self.operator.outputs:
            if output.bound.holistic is not None:
                continue
            states, filled = [parts[fields.start] for _, fields in output.slots], None
            if output.optional:
                ((present, *rest),) = states
                filled = None if present.all() else np.flatnonzero(present)
                states = [tuple(rest) if filled is None else tuple(column[filled] for column in rest)]
            values[output.name] = lowered(output, states, filled, count, self.table)
        return values


FEW_EDGES = 8
"""Windows with fewer edges than one in so many leaves are answered from pieces of several leaves."""


def pieces(
    leaves: State, reduce: Callable[[State, Runs], State], begin: Int64Array, end: Int64Array
) -> tuple[State, Int64Array, Int64Array]:
    """The leaves between neighbouring edges of windows as one, and the windows as ranges of those.

    Where every tuple has a leaf and windows are few, that is one pass instead of all the levels of a tree.
    """
    if 2 * len(begin) * FEW_EDGES > len(leaves[0]):
        return leaves, begin, end
    edges = np.unique(np.concatenate([begin, end]))
    starts = edges[:-1] if edges[-1] == len(leaves[0]) else edges
    runs = Runs.of(starts - starts[0], len(leaves[0]) - int(starts[0]))
    reduced = reduce(tuple(column[starts[0] :] for column in leaves), runs)
    return reduced, np.searchsorted(edges, begin), np.searchsorted(edges, end)


def lowered(output: Output, parts: Sequence[State], held: Int64Array | None, length: int, table: PaneTable) -> pa.Array:
    """The answers of one aggregate; null but for the windows `held`, if not all of them hold a tuple that counts."""
    if held is not None and not len(held):
        return pa.nulls(length, output.bound.result)
    values = of_type(output.bound.lower(parts, table.dictionaries), output.bound.result)
    if held is None:
        return values
    where = np.full(length, -1)
    where[held] = np.arange(len(held))
    return values.take(pa.array(where, mask=where < 0))
