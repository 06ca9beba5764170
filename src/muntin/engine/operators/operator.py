"""What all families have in common, and how answers become results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.arrays import BoolArray, Int64Array, Runs, State
from muntin.engine.operators.parts import Parts
from muntin.features.drift.meter import with_groups
from muntin.features.sampling.plan import SIZE
from muntin.panes.table import Layout, LeafSet, Leaves, PaneTable
from muntin.panes.tuples import Tuples
from muntin.panes.watermarks import Marks
from muntin.partials.values import of_type, taken_from, viewed
from muntin.tree import FlatTree
from muntin.windows import Window

if TYPE_CHECKING:
    from muntin.engine.contents import WholeWindows
    from muntin.plan import Plan

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
    later: bool = False
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


class Later:
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
class LaterOfSome(Later):
    """The same for some of the windows."""

    of_all: Later
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
class Family(ABC):
    """Some of a query's windows and what they are answered from. It holds no data: those are in the pane table."""

    windows: tuple[tuple[int, Window], ...]
    """Each with its index among the plan's windows."""
    first_set: int
    """The index of its first leaf set in the layout."""
    leaf_sets: tuple[LeafSet, ...]
    outputs: tuple[Output, ...]

    settles = False
    """Whether it needs tuples in their final order: they wait, as they are, until they are settled."""

    @cached_property
    def bounds(self) -> dict[str, Bound]:
        """The aggregates by their names."""
        return {output.name: output.bound for output in self.outputs}

    def own(self, table: PaneTable) -> tuple[Leaves, ...]:
        """Its leaves."""
        return table.leaves[self.first_set : self.first_set + len(self.leaf_sets)]

    def mark(self, marks: Marks) -> int:
        """The mark that its windows close with."""
        return marks.settled if self.settles else marks.watermark

    @abstractmethod
    def answers(
        self, plan: Plan, table: PaneTable, after: int, until: int, whole: WholeWindows | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Results of the windows that close when its mark moves from `after` to `until`, in window order.

        `whole` has the tuples, if the query keeps them.
        """

    @abstractmethod
    def closing(self, plan: Plan, table: PaneTable, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        """Those windows, some at a time, without their results; `numbered` if it is asked where their tuples are."""

    @abstractmethod
    def told(
        self, plan: Plan, table: PaneTable, closing: Closing, whole: WholeWindows | None
    ) -> Iterator[pa.RecordBatch]:
        """Their results, in window order."""

    @abstractmethod
    def leaf_ranges(self, table: PaneTable, closing: Closing) -> list[tuple[Int64Array, Int64Array]]:
        """The leaves `[begin, end)` that each window is answered from, in every set of the family."""

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
    settled: Tuples
    """Those that are settled with this batch, in order: no other tuple will come between them or before them."""
    settled_at: Int64Array
    """Where each of the settled ones is among all."""
    closed: int
    """The watermark of the batch before."""


@dataclass(frozen=True)
class Absorbed:
    """What a family made of tuples."""

    table: PaneTable
    bad: Int64Array | None = None
    """The tuples that it set aside, by where they are among the settled ones."""


@dataclass(frozen=True)
class TupleFamily(Family):
    """A family that makes its leaves, of one set, from tuples; every aggregate is in that set."""

    @property
    def leaf_set(self) -> LeafSet:
        return self.leaf_sets[0]

    @abstractmethod
    def absorb(self, plan: Plan, table: PaneTable, arrival: Arrival) -> Absorbed | None:
        """The leaves that tuples add to the table; None if there are none."""

    def table_of(
        self, layout: Layout, table: PaneTable, leaves: Leaves, dictionaries: dict[str, pa.Array]
    ) -> PaneTable:
        """A table of these leaves alone, with the keys of `table`."""
        every = [leaves if i == self.first_set else each.empty() for i, each in enumerate(layout.leaf_sets)]
        return PaneTable(table.keys, tuple(every), dictionaries, layout.no_tuples())

    def answers(
        self, plan: Plan, table: PaneTable, after: int, until: int, whole: WholeWindows | None = None
    ) -> Iterator[pa.RecordBatch]:
        for closing in self.closing(plan, table, after, until, numbered=whole is not None):
            yield from self.told(plan, table, closing, whole)

    def leaf_ranges(self, table: PaneTable, closing: Closing) -> list[tuple[Int64Array, Int64Array]]:
        assert closing.leaves is not None
        return [closing.leaves]

    def told(
        self, plan: Plan, table: PaneTable, closing: Closing, whole: WholeWindows | None
    ) -> Iterator[pa.RecordBatch]:
        """Results of windows that are ranges of leaves, some at a time."""
        assert closing.leaves is not None
        answers, (begin, end) = closing.answers, closing.leaves
        if not len(begin):
            return
        order = np.lexsort((answers.key, answers.start, answers.end))
        used = self._used_parts
        tree = None
        if used:
            state = used.state(self.own(table)[0].state)
            leaves, begin, end = pieces(state, used.leaf_set.reduce, begin, end)
            tree = FlatTree(leaves, used.leaf_set.combine, int((end - begin).max()))
        for first in range(0, len(order), MOST_ANSWERS):
            chosen = order[first : first + MOST_ANSWERS]
            parts = {} if tree is None else used.by_field(tree.ranges(begin[chosen], end[chosen]))
            yield self.results(plan, table, answers.take(chosen), parts, whole)

    @cached_property
    def _used_parts(self) -> Parts:
        """The partials that aggregates need: what a family notes for itself has no place in the tree."""
        return Parts.of(self.leaf_set, {fields.start for output in self.outputs for _, fields in output.slots})

    def results(
        self,
        plan: Plan,
        table: PaneTable,
        answers: Answers,
        parts: Mapping[int, State],
        whole: WholeWindows | None,
    ) -> pa.RecordBatch:
        """`parts` are the states of the partials, by where their fields begin in the leaf set."""
        values = {}
        for output in self.outputs:
            if output.bound.whole is not None:
                continue
            states, held = [parts[fields.start] for _, fields in output.slots], None
            if output.optional:
                ((present, *rest),) = states
                held = None if present.all() else np.flatnonzero(present)
                states = [tuple(rest) if held is None else tuple(column[held] for column in rest)]
            values[output.name] = lowered(output, states, held, len(answers.key), table)
        return told(plan, table, self, answers, values, whole)


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


def told(
    plan: Plan,
    table: PaneTable,
    family: Family,
    answers: Answers,
    lowered_values: Mapping[str, pa.Array],
    whole: WholeWindows | None,
    later: Later | None = None,
) -> pa.RecordBatch:
    """Results of windows whose decomposable aggregates are known, with what needs the tuples themselves."""
    later = later or Later()
    if plan.required:
        answers, lowered_values, later = _with_all(plan, answers, lowered_values, later)
    batch = _told(plan, table, family, answers, lowered_values, whole, later)
    return with_groups(batch, answers.key, lowered_values[SIZE]) if plan.measures_drift else batch


def _told(
    plan: Plan,
    table: PaneTable,
    family: Family,
    answers: Answers,
    lowered_values: Mapping[str, pa.Array],
    whole: WholeWindows | None,
    later: Later,
) -> pa.RecordBatch:
    if not len(answers.key):  # none of the windows has all that is required
        return pa.record_batch([pa.array([], field.type) for field in plan.result_schema], schema=plan.result_schema)
    if whole is None:
        return result_batch(plan, table, answers, [lowered_values[output.name] for output in plan.outputs])
    if plan.applied is not None:
        windows, rows, given = whole.applied(family, answers)
        if whole.shed is not None:
            rows = [*rows, whole.shed.quality(lowered_values, later, given).take(pa.array(windows))]
        return result_batch(plan, table, answers.take(windows), rows)
    estimated = whole.shed or whole.approximate
    if estimated is not None:
        found = estimated.values(family, answers, lowered_values, later)
        told_values = [found[output.name] for output in plan.outputs]
        return result_batch(plan, table, answers, [*told_values, found["quality"]])
    values = {**lowered_values, **whole.values(family, answers)}
    return result_batch(plan, table, answers, [values[output.name] for output in plan.outputs])


def _with_all(
    plan: Plan, answers: Answers, values: Mapping[str, pa.Array], later: Later
) -> tuple[Answers, Mapping[str, pa.Array], Later]:
    """Only the windows that have some of everything that the plan requires."""
    there = np.flatnonzero(np.logical_and.reduce([np.asarray(values[name]) > 0 for name in plan.required]))
    of_them = {name: each.take(pa.array(there)) for name, each in values.items()}
    return answers.take(there), of_them, LaterOfSome(later, there)


def result_batch(plan: Plan, table: PaneTable, answers: Answers, values: Sequence[pa.Array]) -> pa.RecordBatch:
    schema = plan.result_schema
    bounds = [viewed(edge, plan.types[plan.time]) for edge in (answers.start, answers.end)]
    columns: list[pa.Array] = [
        pa.StructArray.from_arrays(bounds, fields=plan.window_fields),
        pa.array(answers.window),
    ]
    if len(plan.windows) > 1:
        titles = pa.array([window.title for window in plan.windows])
        columns.append(titles.take(pa.array(answers.model)))
    if plan.has_partial:
        partial = answers.partial
        columns.append(pa.array(np.zeros(len(answers.key), bool) if partial is None else partial))
    every_key = answers.alone and len(answers.key) == table.keys.num_rows
    columns += [
        table.keys.column(key) if every_key else taken_from(table.keys.column(key), answers.key) for key in plan.keys
    ]
    columns += values
    if plan.late_row is not None:
        columns.append(pa.nulls(len(answers.key), plan.late_row))
    return pa.record_batch(columns, schema=schema)
