"""The window stage of SPRINGALD (its WLS) for one shard: packed panes and a watermark in, closed windows out.

Streams, tables and the pairs of a join all go through `Shard.run`. Each batch restores the state of the batch before,
ingests what arrived, answers the windows that close, prunes what no open window needs, and commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

from muntin.engine.answers import AnswerLink, results
from muntin.engine.batch import Arrived, Selected, ShardBatch
from muntin.engine.chunks.needed import NeededTuples, drop_useless
from muntin.engine.contents import ShardTuples
from muntin.engine.emitted import Emitted, Results
from muntin.engine.features import ShardFeature, Task
from muntin.engine.ingest import additions, ingest
from muntin.engine.live import LivePanes
from muntin.engine.map_stage import NO_TIME, PackedPanes
from muntin.engine.metrics import Metrics
from muntin.engine.operators.operator import NEVER_MORE
from muntin.engine.plan import Plan
from muntin.engine.pruning import without_closed
from muntin.engine.store import Change, Header, ShardStore, header_parts
from muntin.panes.table import PaneTable, compacted
from muntin.panes.watermarks import Watermarks

EVERYTHING = NEVER_MORE
"""The watermark of a table: all windows close."""


@dataclass
class Shard:
    """One batch of one shard. Iterate `run` to its end, then read `metrics`."""

    plan: Plan
    """The plan as this shard follows it."""
    store: ShardStore
    shard: int = 0
    task: Task = field(default_factory=Task)
    latest: int = NO_TIME
    """The latest event time that any task has seen, if what was sent to this shard does not say it."""
    metrics: Metrics = field(init=False)
    features: dict[str, ShardFeature] = field(init=False)
    """The features' parts in this batch, by name, the innermost first."""

    def __post_init__(self) -> None:
        assert self.plan.zone_column is None, "the windows of every zone have a run of their own"
        self.metrics = Metrics(self.plan.metrics)
        features = reversed(self.plan.features)
        parts = ((feature.name, feature.on_shard(self.plan, self.shard, self.task)) for feature in features)
        self.features = {name: part for name, part in parts if part is not None}

    def run(self, sent: Iterable[PackedPanes] | Arrived, watermark: int) -> Iterator[Emitted]:
        """Ingest what was sent, answer the windows that the watermark (in microseconds) closes, and commit.

        A row counts for a window unless the window ended at or before the watermark of the batch before, `closed`. That
        watermark is in the header, because a shard runs in every batch in which the watermark moves.
        """
        closed = self.store.header.watermarks
        arrived = sent if isinstance(sent, Arrived) else Arrived.of(sent, self.plan, closed, self.features)
        yield from map(Results, arrived.late)
        for feature in self.features.values():
            watermark = feature.watermark(watermark, arrived, self.store.header)
        batch = self._restored(arrived, closed, watermark)
        del sent, arrived  # their memory is free for the answers
        self._ingest(batch)
        yield from self._answers(batch)
        self._prune(batch)
        self._commit(batch)

    def _restored(self, arrived: Arrived, closed: Watermarks, watermark: int) -> ShardBatch:
        """The state of the batch before, and what has arrived."""
        now = advanced(self.plan, closed, watermark, max(arrived.latest, self.latest))
        policies = (policy for part in self.features.values() if (policy := part.chunk_policy) is not None)
        batch = ShardBatch(
            plan=self.plan,
            shard=self.shard,
            header=self.store.header,
            closed=closed,
            now=now,
            metrics=self.metrics,
            chunks=self.store.chunks(now.finalized, next(policies, None)),
            values=self.store.values,
            notes=self.store.notes(),
            before=self.store.table(),
            arrived=arrived.merged(self.plan),
            live=self.store.take_live(),
        )
        self.metrics.add(**arrived.counts)
        self._call_features(lambda feature: feature.begin(batch))
        return batch

    def _ingest(self, batch: ShardBatch) -> None:
        batch.arrived_leaves = 0 if batch.arrived is None else batch.arrived.size
        batch.ingested = ingest(self.plan, batch.before, batch.arrived, batch.closed, batch.now, batch.live)
        if batch.ingested is None:
            return
        batch.live = batch.ingested.live
        self.metrics.add(invalid_rows=batch.ingested.invalid_rows)
        batch.tuples = shard_tuples(batch)
        self._call_features(lambda feature: feature.ingested(batch))
        batch.before = batch.arrived = None

    def _answers(self, batch: ShardBatch) -> Iterator[Emitted]:
        """The results of all windows that close with this batch."""
        emitted = self._results(batch)
        for feature in self.features.values():
            emitted = feature.emit(emitted, batch)
        begin = perf_counter_ns()
        for item in emitted:
            self.metrics.add(answer_nanoseconds=perf_counter_ns() - begin, results=len(item))
            yield item
            begin = perf_counter_ns()
        if batch.tuples is not None:
            self.metrics.add(answer_bytes=batch.tuples.read_bytes)
        self._call_features(lambda feature: feature.answered(batch))

    def _results(self, batch: ShardBatch) -> Iterator[Emitted]:
        if batch.ingested is None:
            return
        tuples, link = None, None
        for windows in self._selected(batch):
            if link is None or windows.tuples is not tuples:
                tuples, link = windows.tuples, chain(self.plan, windows.tuples, self.features.values(), batch)
            combined = windows.reader.combined(windows.closing)
            yield from results(self.plan.schema, windows.table, windows.operator, combined, link)

    def _selected(self, batch: ShardBatch) -> Iterator[Selected]:
        """The windows to answer: those that close, unless a feature selects others."""
        selections = (feature.select(batch) for feature in self.features.values())
        selected = next((windows for windows in selections if windows is not None), None)
        if selected is not None:
            yield from selected
            return
        for operator, after, until in batch.closing:
            yield from batch.closing_windows(operator, after, until)

    def _prune(self, batch: ShardBatch) -> None:
        """Keep what open windows need."""
        ingested = batch.ingested
        if ingested is None or batch.now.watermark >= EVERYTHING:
            return
        batch.left = without_closed(ingested.table, self.plan, batch.now, batch.live)
        batch.added = additions(self.plan, ingested, batch.left, batch.now)
        if self.plan.keeps_chunks:
            self._keep_chunks(batch)
        self._call_features(lambda feature: feature.prune(batch))
        self._compact(batch, batch.left)

    def _compact(self, batch: ShardBatch, left: PaneTable) -> None:
        """Forget keys and values that are no longer used, and see to it that trees that pay live on."""
        batch.left = compacted(self.plan.layout, left)
        if batch.live is not None and batch.left.keys is not left.keys:
            batch.live.follow_keys(left.used_keys())
        if batch.live is not None:
            batch.live.follow(batch.left.dictionaries)
        elif self.plan.lives:
            assert self.plan.over_time is not None
            batch.live = LivePanes.of(self.plan.over_time, batch.left, batch.arrived_leaves, self.plan.device)
        if batch.live is not None:
            batch.left = batch.live.held(batch.left)

    def _keep_chunks(self, batch: ShardBatch) -> None:
        """Write complete chunks, and drop those that no window needs."""
        plan, ingested = self.plan, batch.ingested
        assert ingested is not None
        assert ingested.tuples is not None
        assert batch.left is not None
        complete = (ingested.tuples.time < plan.complete_until(batch.now)) & (ingested.tuples.membership > 0)
        needed = NeededTuples(plan.layout, plan.operators, batch.left, batch.now)
        table = replace(batch.left, tuples=ingested.tuples.take(complete))
        table = replace(table, tuples=table.tuples.take(needed.of(table))) if table.tuples is not None else table
        in_pieces = plan.writes_through and not batch.now.waits
        batch.chunks.add(table, already=plan.complete_until(batch.closed), in_pieces=in_pieces)
        drop_useless(batch.chunks, needed)

    def _commit(self, batch: ShardBatch) -> None:
        chunks = batch.chunks
        self.metrics.add(compressions=chunks.compressions, decompressions=chunks.decompressions)
        parts = header_parts(feature.commit(batch) for feature in self.features.values())
        header = self.store.commit(
            Change(
                batch.left,
                batch.added,
                batch.now,
                self.metrics.counters,
                chunks.commit(),
                parts,
                batch.new_notes,
                batch.remembers_table,
                batch.live,
            )
        )
        self._measure(batch, header)
        self._call_features(lambda feature: feature.committed(batch))

    def _measure(self, batch: ShardBatch, header: Header) -> None:
        metrics, chunks, table = self.metrics, header.chunks, batch.left
        metrics.set_totals(header.totals)
        metrics["chunks"] = len(chunks)
        metrics["chunk_tuples"] = sum(chunk.tuples for chunk in chunks)
        metrics["uncompressed_bytes"] = sum(chunk.size for chunk in chunks if not chunk.compressed)
        compressed = [chunk for chunk in chunks if chunk.compressed]
        metrics["compressed_chunks"] = len(compressed)
        metrics["compressed_tuples"] = sum(chunk.tuples for chunk in compressed)
        metrics["compressed_bytes"] = sum(chunk.size for chunk in compressed)
        metrics["compressed_after"] = max(0, min((batch.chunks.age(chunk) for chunk in compressed), default=0))
        metrics["left_chunks"] = sum(not batch.chunks.is_resident(chunk) for chunk in chunks)
        metrics["resident_bytes"] = batch.chunks.resident_bytes
        metrics["state_bytes"] = sum(segment.size for segment in header.segments) + batch.chunks.state_bytes
        metrics["segments"] = len(header.segments)
        hit = self.store.cache_hit
        metrics["cache_hits"], metrics["cache_misses"] = int(hit is True), int(hit is False)
        if table is not None:
            metrics["panes"] = sum(len(operator.own(table)[0]) for operator in self.plan.operators)
            metrics["tuples"] = 0 if table.tuples is None else len(table.tuples)
            metrics["hot_bytes"] = table.nbytes + (0 if batch.live is None else batch.live.nbytes)

    def _call_features(self, step: Callable[[ShardFeature], None]) -> None:
        for feature in self.features.values():
            step(feature)


def advanced(plan: Plan, closed: Watermarks, watermark: int, latest: int) -> Watermarks:
    """The watermarks of a batch, behind Spark's by as long as closed windows can be corrected."""
    if watermark >= EVERYTHING:
        return Watermarks.at(watermark)
    final = watermark - (plan.correctable if plan.needs_order else 0)
    if plan.delay is not None:  # every task reports to every shard, so all shards finalize up to the same time
        final = max(final, latest - plan.delay - (plan.correctable if plan.needs_order else 0))
    watermark = max(watermark - plan.correctable, closed.watermark)
    return Watermarks(watermark, max(watermark, final, closed.finalized))


def shard_tuples(batch: ShardBatch) -> ShardTuples:
    """The tuples of the windows that close with a batch."""
    plan, ingested = batch.plan, batch.ingested
    assert ingested is not None
    return ShardTuples(
        plan.schema,
        plan.layout,
        plan.operators,
        ingested.table,
        ingested.tuples,
        batch.now.finalized,
        batch.chunks,
    )


def chain(
    plan: Plan, tuples: ShardTuples, features: Iterable[ShardFeature], batch: ShardBatch | None = None
) -> AnswerLink:
    """The chain of answers: the innermost link is exact, and every feature may wrap it in its own."""
    link = plan.innermost(tuples)
    for feature in features:
        link = feature.link(link, tuples, batch)
    return link
