"""The agnostic worker model: the window stage is the emitter, and hands out window jobs.

The emitter owns the chunk buffer and knows which windows are complete. A job is a run of consecutive windows with the
leaves and tuples that they need, each once, however many windows overlap. A worker knows nothing of sliding. The data
of a job are a copy, so the emitter may drop or compress a chunk while workers still read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array, expand, run_starts
from muntin.engine.answers import results
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
    """Windows of one operator, with exactly the leaves and tuples that answer them."""

    operator: int
    closing: Closing
    table: PaneTable
    turn: int = 0
    """Its rank among the jobs of a batch: the costliest start first, so that the last ones are short."""

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
        ranges = Answers(**columns, tuples=pairs["tuples"])
        return cls(int(answers.schema.metadata[_OPERATOR]), Closing(ranges, pairs["leaves"]), read_table(layout, table))


def _aligned(body: memoryview) -> memoryview:
    """An aligned copy: the bytes of a shuffle start at any address, and unaligned numbers are slow to read."""
    return np.frombuffer(body, dtype=np.uint8).copy().data


def _columns(closing: Closing) -> Iterator[tuple[str, Int64Array | None]]:
    answers = closing.answers
    for name in ("model", "window", "key", "start", "end", "partial"):
        yield name, getattr(answers, name)
    for name, edges in (("leaves", closing.leaves), ("tuples", answers.tuples)):
        yield f"{name}_begin", None if edges is None else edges[0]
        yield f"{name}_end", None if edges is None else edges[1]


def window_jobs(batch: ShardBatch, tasks: int) -> Iterator[Job]:
    """The emitter: all windows that close with this batch, as jobs of similar cost."""
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
                yield from (Job(number, *part.job(plan.layout, positions), jobs + turn) for positions, turn in runs)
                jobs += len(runs)


def _parts(
    operator: WindowOperator, table: PaneTable, closing: Closing, tuples: ShardTuples | None
) -> Iterator[_Windows]:
    """The windows with the tuples that they need, in parts that fit in memory."""
    if not len(closing.answers.key):
        return
    if tuples is None:
        yield _Windows(operator, table, closing, None)
        return
    for _, parts in groupby(tuples.parts(operator, closing.answers), key=lambda part: id(part.contents.tuples)):
        # Windows of all models over the same tuples are combined, so that they stay in one order.
        answers, contents = zip(*((part.answers, part.contents) for part in parts), strict=True)
        begin, end = (np.concatenate([getattr(windows, edge) for windows in contents]) for edge in ("begin", "end"))
        yield _Windows(
            operator, table, closing.take(np.concatenate(answers)), WindowContents(contents[0].tuples, begin, end)
        )


@dataclass(frozen=True)
class _Windows:
    """Closing windows of one operator, and their tuples."""

    operator: WindowOperator
    table: PaneTable
    closing: Closing
    contents: WindowContents | None

    def runs(self, tasks: int) -> Iterator[tuple[Int64Array, int]]:
        """Runs of consecutive windows with similar costs, at most one per task, and the turn of each run."""
        answers = self.closing.answers
        order = np.lexsort((answers.key, answers.start, answers.end))
        cost = np.ones(len(order)) if self.contents is None else 1.0 + (self.contents.end - self.contents.begin)[order]
        cost_until = np.cumsum(cost)
        # A window belongs to the run that contains its middle, so that a very large one shares its run with few others.
        starts = run_starts((cost_until - cost / 2) * min(tasks, len(order)) // cost_until[-1])
        turns = np.argsort(np.argsort(-np.add.reduceat(cost, starts), kind="stable"))
        yield from zip(np.split(order, starts[1:]), turns.tolist(), strict=True)

    def job(self, layout: Layout, positions: Int64Array) -> tuple[Closing, PaneTable]:
        """The windows at these positions and their data, with renumbered keys and ranges."""
        closing = self.closing.take(positions)
        keys, key = np.unique(closing.answers.key, return_inverse=True)
        leaves = [leaf_set.empty() for leaf_set in layout.leaf_sets]
        leaf_ranges = None
        if any(output.bound.holistic is None for output in self.operator.outputs):
            for index, (begin, end) in enumerate(self.operator.leaf_ranges(self.table, closing)):
                hull = _Hull(key, len(keys), begin, end)
                leaf_ranges = hull.moved(begin, end)
                own_leaves = self.operator.own(self.table)[index].take(hull.places)
                leaves[self.operator.first_set + index] = Leaves(hull.key, own_leaves.time, own_leaves.state)
        tuples, tuple_ranges = layout.no_tuples(), None
        if self.contents is not None:
            begin, end = self.contents.begin[positions], self.contents.end[positions]
            hull = _Hull(key, len(keys), begin, end)
            tuple_ranges = hull.moved(begin, end)
            tuples = replace(_tuples_of(self.contents.tuples, hull), key=hull.key)
        answers = replace(closing.answers, key=key, from_end=None, tuples=tuple_ranges)
        table = PaneTable(self.table.keys.take(pa.array(keys)), tuple(leaves), self.table.dictionaries, tuples)
        empty = np.zeros(len(positions), dtype=np.int64)
        places = None if closing.leaves is None else leaf_ranges or (empty, empty)
        return Closing(answers, places), table


class _Hull:
    """For each key, everything from the begin of its first window to the end of its last one."""

    def __init__(self, key: Int64Array, keys: int, begin: Int64Array, end: Int64Array) -> None:
        # Empty windows do not extend the hull.
        filled = begin < end
        first, last = np.full(keys, np.iinfo(np.int64).max), np.zeros(keys, dtype=np.int64)
        np.minimum.at(first, key[filled], begin[filled])
        np.maximum.at(last, key[filled], end[filled])
        lengths = np.maximum(last - first, 0)
        self._shift = (np.cumsum(lengths) - lengths - first)[key]
        self._filled = filled
        self.places, self.key = expand(first, lengths)

    def moved(self, begin: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The ranges of the windows inside the hull."""
        return np.where(self._filled, begin + self._shift, 0), np.where(self._filled, end + self._shift, 0)


def _tuples_of(tuples: Tuples, hull: _Hull) -> Tuples:
    places = hull.places
    if len(places) and places[-1] - places[0] + 1 == len(places):  # contiguous: a slice, without a copy
        within = slice(int(places[0]), int(places[-1]) + 1)
        return Tuples(tuples.key[within], tuples.time[within], tuples.columns.slice(within.start, len(places)))
    return tuples.take(places)


class JobTuples(ShardTuples):
    """The tuples of a job, already in order, with the ranges of their windows."""

    def __init__(self, plan: Plan, table: PaneTable) -> None:
        super().__init__(plan.schema, plan.layout, plan.operators, table, table.tuples, finalized=0)

    def parts(self, operator: WindowOperator, answers: Answers) -> Iterator[Part]:
        assert answers.tuples is not None, "a job knows where its tuples are"
        begin, end = answers.tuples
        for model in np.unique(answers.model):
            positions = np.flatnonzero(answers.model == model)
            yield Part(positions, WindowContents(self._memory, begin[positions], end[positions]))


def done(plan: Plan, packed: bytes) -> Iterator[pa.RecordBatch]:
    """The worker: computes the results of a job, in window order."""
    job = Job.unpack(plan.layout, packed)
    features = [shard_feature for item in reversed(plan.features) if (shard_feature := item.on_job(plan)) is not None]
    emitted: Iterator[Emitted] = _results(plan, job, features)
    for feature in features:
        emitted = feature.emit(emitted, None)
    yield from (item.rows for item in emitted if isinstance(item, Results))


def _results(plan: Plan, job: Job, features: Sequence[ShardFeature]) -> Iterator[Emitted]:
    operator, link = plan.operators[job.operator], chain(plan, JobTuples(plan, job.table), features)
    combined = operator.reader(job.table).combined(job.closing)
    yield from results(plan.schema, job.table, operator, combined, link)


def computed(plan: Plan, emitted: Iterable[Emitted]) -> Iterator[pa.RecordBatch]:
    """All results; jobs are computed here, where there are no workers to hand them to."""
    for item in emitted:
        if isinstance(item, Results):
            yield item.rows
        else:
            yield from done(plan, item.pack())
