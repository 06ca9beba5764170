"""The agnostic worker model: the window stage is the emitter, and hands out window jobs.

The emitter owns the chunk buffer and knows which windows are complete. A job is a run of consecutive windows with what
they need of it, once, however many of them overlap; whoever gets a job knows nothing of windows that slide. What a job
holds is a copy, so that the emitter may drop or compress a chunk while others still read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array, expand, run_starts
from muntin.engine.answers import closed_windows, rendered
from muntin.engine.batch import ShardBatch
from muntin.engine.contents import Part, ShardTuples
from muntin.engine.emitted import Emitted, Results
from muntin.engine.features import ShardFeature
from muntin.engine.operators.operator import Answers, Closing, WindowOperator
from muntin.engine.plan import Plan
from muntin.engine.shard import chain
from muntin.holistic.contents import WindowContents
from muntin.panes.packed import PLAIN, Kind, read_batches, read_table, seal, unseal, write_batch, write_table
from muntin.panes.table import Layout, Leaves, PaneTable
from muntin.panes.tuples import Tuples

_OPERATOR = b"muntin.operator"


@dataclass(frozen=True)
class Job:
    """Windows of one operator, the leaves and the tuples that answer them, and no others."""

    operator: int
    closing: Closing
    table: PaneTable
    turn: int = 0
    """When it is begun, among the jobs of a batch: the costliest first, so that what is left at the end is little."""

    def __len__(self) -> int:
        return len(self.closing.answers.key)

    def pack(self) -> bytes:
        columns = {name: column for name, column in _columns(self.closing) if column is not None}
        answers = pa.record_batch(list(map(pa.array, columns.values())), names=list(columns))
        sink = pa.BufferOutputStream()
        # Spark compresses what it sends.
        write_batch(sink, answers.replace_schema_metadata({_OPERATOR: str(self.operator)}), PLAIN)
        write_table(sink, self.table, PLAIN)
        return seal(Kind.JOB, sink.getvalue().to_pybytes())

    @classmethod
    def unpack(cls, layout: Layout, packed: bytes) -> Job:
        answers, *table = read_batches(_aligned(unseal(Kind.JOB, packed)))
        columns = {
            name: column.to_numpy(zero_copy_only=False)
            for name, column in zip(answers.schema.names, answers.columns, strict=True)
        }
        pairs = {
            name: (columns.pop(f"{name}_begin"), columns.pop(f"{name}_end")) if f"{name}_begin" in columns else None
            for name in ("leaves", "tuples")
        }
        found = Answers(**columns, tuples=pairs["tuples"])
        return cls(int(answers.schema.metadata[_OPERATOR]), Closing(found, pairs["leaves"]), read_table(layout, table))


def _aligned(body: memoryview) -> memoryview:
    """A copy that begins where numbers may: what comes out of a shuffle begins anywhere, and reads slowly for that."""
    return np.frombuffer(body, dtype=np.uint8).copy().data


def _columns(closing: Closing) -> Iterator[tuple[str, Int64Array | None]]:
    answers = closing.answers
    for name in ("model", "window", "key", "start", "end", "partial"):
        yield name, getattr(answers, name)
    for name, edges in (("leaves", closing.leaves), ("tuples", answers.tuples)):
        yield f"{name}_begin", None if edges is None else edges[0]
        yield f"{name}_end", None if edges is None else edges[1]


def window_jobs(batch: ShardBatch, tasks: int) -> Iterator[Job]:
    """The emitter: all windows that close with this batch, as jobs of about the same cost."""
    plan, jobs = batch.plan, 0
    if batch.ingested is None:
        return
    assert batch.tuples is not None
    table = batch.ingested.table
    for operator, after, until in batch.closing:
        number = plan.operators.index(operator)
        for closing in operator.reader(table).closing(after, until, plan.keeps_tuples):
            for part in _parts(operator, table, closing, batch.tuples if plan.keeps_tuples else None):
                runs = list(part.runs(tasks))
                yield from (Job(number, *part.job(plan.layout, chosen), jobs + turn) for chosen, turn in runs)
                jobs += len(runs)


def _parts(
    operator: WindowOperator, table: PaneTable, closing: Closing, tuples: ShardTuples | None
) -> Iterator[_Windows]:
    """The windows with their tuples, if they need any: as many at a time as memory allows."""
    if not len(closing.answers.key):
        return
    if tuples is None:
        yield _Windows(operator, table, closing, None)
        return
    for _, parts in groupby(tuples.parts(operator, closing.answers), key=lambda part: id(part.contents.tuples)):
        # Windows of all models over the same tuples: so they stay in one order.
        answers, held = zip(*((part.answers, part.contents) for part in parts), strict=True)
        begin, end = (np.concatenate([getattr(each, edge) for each in held]) for edge in ("begin", "end"))
        yield _Windows(
            operator, table, closing.take(np.concatenate(answers)), WindowContents(held[0].tuples, begin, end)
        )


@dataclass(frozen=True)
class _Windows:
    """Windows that close, of one operator, and their tuples."""

    operator: WindowOperator
    table: PaneTable
    closing: Closing
    held: WindowContents | None

    def runs(self, tasks: int) -> Iterator[tuple[Int64Array, int]]:
        """Consecutive windows, in as many runs of about the same cost as there are tasks, and the turn of each."""
        answers = self.closing.answers
        order = np.lexsort((answers.key, answers.start, answers.end))
        cost = np.ones(len(order)) if self.held is None else 1.0 + (self.held.end - self.held.begin)[order]
        until = np.cumsum(cost)
        # A window goes where its middle is, so that one which is larger than a share has few others with it.
        starts = run_starts((until - cost / 2) * min(tasks, len(order)) // until[-1])
        turns = np.argsort(np.argsort(-np.add.reduceat(cost, starts), kind="stable"))
        yield from zip(np.split(order, starts[1:]), turns.tolist(), strict=True)

    def job(self, layout: Layout, chosen: Int64Array) -> tuple[Closing, PaneTable]:
        """Some of the windows and what they need, with codes of keys and places of their own."""
        closing = self.closing.take(chosen)
        keys, key = np.unique(closing.answers.key, return_inverse=True)
        leaves = [leaf_set.empty() for leaf_set in layout.leaf_sets]
        of_leaves = None
        if any(output.bound.holistic is None for output in self.operator.outputs):
            for place, (begin, end) in enumerate(self.operator.leaf_ranges(self.table, closing)):
                hull = _Hull(key, len(keys), begin, end)
                of_leaves = hull.moved(begin, end)
                own = self.operator.own(self.table)[place].take(hull.places)
                leaves[self.operator.first_set + place] = Leaves(hull.key, own.time, own.state)
        tuples, of_tuples = layout.no_tuples(), None
        if self.held is not None:
            begin, end = self.held.begin[chosen], self.held.end[chosen]
            hull = _Hull(key, len(keys), begin, end)
            of_tuples = hull.moved(begin, end)
            tuples = replace(_taken(self.held.tuples, hull), key=hull.key)
        answers = replace(closing.answers, key=key, from_end=None, tuples=of_tuples)
        table = PaneTable(self.table.keys.take(pa.array(keys)), tuple(leaves), self.table.dictionaries, tuples)
        empty = np.zeros(len(chosen), dtype=np.int64)
        places = None if closing.leaves is None else of_leaves or (empty, empty)
        return Closing(answers, places), table


class _Hull:
    """Of each key everything from the begin of its first window to the end of its last one."""

    def __init__(self, key: Int64Array, keys: int, begin: Int64Array, end: Int64Array) -> None:
        # A window without any is no reason to take what is before it.
        filled = begin < end
        first, last = np.full(keys, np.iinfo(np.int64).max), np.zeros(keys, dtype=np.int64)
        np.minimum.at(first, key[filled], begin[filled])
        np.maximum.at(last, key[filled], end[filled])
        lengths = np.maximum(last - first, 0)
        self._shift = (np.cumsum(lengths) - lengths - first)[key]
        self._filled = filled
        self.places, self.key = expand(first, lengths)

    def moved(self, begin: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Where the windows begin and end now."""
        return np.where(self._filled, begin + self._shift, 0), np.where(self._filled, end + self._shift, 0)


def _taken(tuples: Tuples, hull: _Hull) -> Tuples:
    places = hull.places
    if len(places) and places[-1] - places[0] + 1 == len(places):  # of one key, or of neighbours: nothing is copied
        within = slice(int(places[0]), int(places[-1]) + 1)
        return Tuples(tuples.key[within], tuples.time[within], tuples.columns.slice(within.start, len(places)))
    return tuples.take(places)


class JobTuples(ShardTuples):
    """The tuples of a job, which are in order and know their windows."""

    def __init__(self, plan: Plan, table: PaneTable) -> None:
        super().__init__(plan.schema, plan.layout, plan.operators, table, table.tuples, finalized=0)

    def parts(self, operator: WindowOperator, answers: Answers) -> Iterator[Part]:
        assert answers.tuples is not None, "a job knows where its tuples are"
        begin, end = answers.tuples
        for model in np.unique(answers.model):
            positions = np.flatnonzero(answers.model == model)
            yield Part(positions, WindowContents(self._memory, begin[positions], end[positions]))


def done(plan: Plan, packed: bytes) -> Iterator[pa.RecordBatch]:
    """The worker: the results of a job, in window order."""
    job = Job.unpack(plan.layout, packed)
    features = [part for each in reversed(plan.features) if (part := each.on_job(plan)) is not None]
    emitted: Iterator[Emitted] = _results(plan, job, features)
    for feature in features:
        emitted = feature.emit(emitted, None)
    yield from (each.rows for each in emitted if isinstance(each, Results))


def _results(plan: Plan, job: Job, features: Sequence[ShardFeature]) -> Iterator[Emitted]:
    operator, link = plan.operators[job.operator], chain(plan, JobTuples(plan, job.table), features)
    for combined in operator.reader(job.table).combined(job.closing):
        for answered in link.answer(closed_windows(operator, combined)):
            yield Results(rendered(plan.schema, job.table, answered), answered.windows)


def computed(plan: Plan, emitted: Iterable[Emitted]) -> Iterator[pa.RecordBatch]:
    """Results, those of jobs among them, where there is nobody to hand them to."""
    for each in emitted:
        if isinstance(each, Results):
            yield each.rows
        else:
            yield from done(plan, each.pack())
