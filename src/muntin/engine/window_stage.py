"""The window stage (SPRINGALD's WLS) of one shard: packed panes and a watermark in, results of closed windows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

import numpy as np
import pyarrow as pa

from muntin.engine.chunks.needed import NeededTuples, drop_useless
from muntin.engine.chunks.store import ChunkStore
from muntin.engine.contents import WholeWindows
from muntin.engine.ingest import Taken, absorb, additions
from muntin.engine.map_stage import PackedPanes
from muntin.engine.metrics import ShardMetrics
from muntin.engine.store import Header, PaneStore, Totals, open_rows, without_closed
from muntin.features.drift.meter import DriftMeter
from muntin.features.ranking.order import best
from muntin.features.sampling.store import SampleStore
from muntin.features.sampling.windows import ApproximateWindows
from muntin.features.shedding.windows import ShedWindows
from muntin.features.workers.dealing import in_private_panes
from muntin.features.workers.jobs import Job, window_jobs
from muntin.panes import packed
from muntin.panes.table import PaneTable, compacted, merge
from muntin.panes.watermarks import Marks
from muntin.plan import Plan


@dataclass
class WindowStage:
    """One batch of one shard. Iterate `advance` to its end, then read `metrics`."""

    plan: Plan
    store: PaneStore
    metrics: ShardMetrics = field(default_factory=ShardMetrics)

    def advance(self, arrived: Iterable[PackedPanes], watermark: int) -> Iterator[pa.RecordBatch | Job]:
        """Take in what arrived, answer the windows that the watermark (in microseconds) closes, commit.

        Where workers are agnostic, the windows are not answered but handed out as jobs.

        A row counts for a window unless that window's end was at or before the watermark of the batch before this
        one: `closed`. The shard hears of every batch in which the watermark moved, so that is what its header says.
        """
        before = self.store.table()
        closed = self.store.header.marks
        arrived = list(arrived)
        now = self._now(arrived, closed, watermark)
        arrived_table, counted, late = self._take_in(arrived, closed)
        yield from late
        pause = self.store.header.pause
        if pause.is_first and (groups := crowd(self.plan, arrived_table)):
            pause = pause.from_the_start(now.settled, groups)
        paused = pause.is_on(now.settled)
        now = replace(now, waits=paused and self.plan.samples and not self.plan.settles)
        taken = absorb(self.plan, before, arrived_table, closed, now)
        table, added, samples = None, None, None
        falls_back = self.store.header.falls_back
        chunks = self.store.chunks(now.settled)
        drift = DriftMeter.since(self.plan, self.store.last_windows()) if self.plan.measures_drift else None
        if taken is not None:
            counted = replace(counted, bad_rows=counted.bad_rows + taken.bad_rows)
            if now.waits and arrived_table is not None and arrived_table.tuples is not None:
                pause = pause.blind_to(arrived_table.tuples.time)
            sampled = self.store.sampled(taken.table, now, pause)
            epoch, rate = self.store.header.totals.rows, self.metrics.shed_rate / 1e6
            whole = whole_windows(self.plan, taken, now, chunks, sampled, epoch, paused, rate)
            begin = perf_counter_ns()
            for told_part, results in self._told(taken, closed, now, whole, drift):
                self.metrics.answer_nanoseconds += perf_counter_ns() - begin
                counted = replace(counted, results=counted.results + results)
                yield told_part
                begin = perf_counter_ns()
            self.metrics.answer_bytes = 0 if whole is None else whole.read_bytes
            if whole is not None and whole.shed is not None:
                counted = self.metrics.count_shed(counted, whole.shed)
            if whole is not None and whole.approximate is not None:
                told = whole.approximate.counted
                self.metrics.answer_bytes += told.sample_bytes
                if told.exact or told.approximate:
                    falls_back = told.read > 0
                if whole.shed is None:
                    counted = replace(counted, exact_windows=told.exact, approximate_windows=told.approximate)
                pause = pause.after(now.settled, told.helped, told.failed, told.hopeful, told.closed, told.looked_at)
            table = without_closed(taken.table, self.plan, now)
            added = additions(self.plan, taken, table, now)
            if self.plan.keeps_chunks:
                keep_chunks(self.plan, chunks, taken, table, closed, now)
            samples = None if sampled is None else sampled.prune(table, closed, now)
            table = compacted(self.plan.layout, table)
            samples = None if samples is None else samples.with_keys_of(self.plan, table)
        counted = replace(counted, compressions=chunks.compressions, decompressions=chunks.decompressions)
        if self.plan.samples and not falls_back:
            chunks.leave_to_state()
        header = self.store.commit(table, added, now, counted, chunks.commit(), samples, falls_back, pause)
        self.metrics.count(counted, header.totals)
        self._measure(table, header, chunks)
        self.metrics.sample_tuples = 0 if samples is None else len(samples)
        self.metrics.sample_bytes = 0 if samples is None else samples.nbytes
        if drift is not None:
            drift.finish(now.watermark)
            self.metrics.drift_common, self.metrics.drift_union = drift.common, drift.union
            self.metrics.drift_apart, self.metrics.drift_total = drift.apart, drift.total
            self.store.keep_last_windows(drift.last)

    def _told(
        self, taken: Taken, closed: Marks, now: Marks, whole: WholeWindows | None, drift: DriftMeter | None
    ) -> Iterator[tuple[pa.RecordBatch | Job, int]]:
        """Results or jobs, each with how many windows or results it stands for."""
        if self.plan.workers.model == "agnostic":
            for job in window_jobs(self.plan, taken.table, closed, now, whole):
                self.metrics.jobs += 1
                yield job, len(job)
        else:
            for batch in answers(self.plan, taken, closed, now, whole, drift):
                yield best(self.plan, batch), batch.num_rows

    def _now(self, arrived: Sequence[PackedPanes], closed: Marks, watermark: int) -> Marks:
        """Every task tells every shard the latest time that it has seen, so all shards settle alike."""
        watermark = max(watermark, closed.watermark)
        settled = max(watermark, closed.settled)
        if self.plan.delay is not None:
            settled = max([settled, *(each.latest - self.plan.delay for each in arrived)])
        return Marks(watermark, settled)

    def _take_in(
        self, arrived: Iterable[PackedPanes], closed: Marks
    ) -> tuple[PaneTable | None, Totals, list[pa.RecordBatch]]:
        """The panes that arrived in time as one table, the counts, and the rows that came too late."""
        tables, rows, late_rows, bad_rows, outside_rows, shed_rows, ahead_rows = [], 0, 0, 0, 0, 0, 0
        late: list[pa.RecordBatch] = []
        # By time they mostly are in order as they are; by content, too, so that a replay adds in the same order.
        for each in sorted(arrived, key=lambda each: (each.latest, each.panes or b"")):
            rows += each.rows
            bad_rows += each.bad_rows
            outside_rows += each.outside_rows
            shed_rows += each.shed_rows
            ahead_rows += each.ahead_rows
            self.metrics.shed_rate = max(self.metrics.shed_rate, each.shed_rate)
            if each.panes is not None:
                self.metrics.arrived_bytes += len(each.panes)
                received = in_private_panes(self.plan, packed.unpack(self.plan.layout, each.panes))
                table, too_late = open_rows(received, self.plan, closed)
                late_rows += too_late
                if table.size:
                    tables.append(table)
            if each.late_candidates is not None:
                late += late_results(self.plan, packed.unpack_rows(each.late_candidates), closed)
            if each.ahead is not None:
                late += rows_as_results(self.plan, packed.unpack_rows(each.ahead))
        added = merge(self.plan.layout, tables) if tables else None
        counted = Totals(rows, late_rows, bad_rows, outside_rows, shed_rows=shed_rows, ahead_rows=ahead_rows)
        return added, counted, late

    def _measure(self, table: PaneTable | None, header: Header, chunks: ChunkStore) -> None:
        metrics = self.metrics
        metrics.chunks = len(header.chunks)
        metrics.compressed_chunks = sum(chunk.compressed for chunk in header.chunks)
        metrics.chunk_tuples = sum(chunk.tuples for chunk in header.chunks)
        metrics.uncompressed_bytes = sum(chunk.size for chunk in header.chunks if not chunk.compressed)
        metrics.compressed_bytes = sum(chunk.size for chunk in header.chunks if chunk.compressed)
        metrics.left_chunks = sum(not chunks.is_resident(chunk) for chunk in header.chunks)
        metrics.resident_bytes = chunks.resident_bytes
        metrics.compressed_after = chunks.found_after()
        metrics.state_bytes = sum(segment.size for segment in header.segments) + chunks.state_bytes
        metrics.segments = len(header.segments)
        if table is not None:
            metrics.panes = sum(len(family.own(table)[0]) for family in self.plan.families)
            metrics.tuples = 0 if table.tuples is None else len(table.tuples)
        metrics.hot_bytes = 0 if table is None else table.nbytes
        metrics.cache_hits, metrics.cache_misses = int(self.store.cache_hit), int(not self.store.cache_hit)


def crowd(plan: Plan, arrived: PaneTable | None) -> int:
    """The groups of the fullest pane, if the budget has fewer tuples: no window over it is answered from a sample."""
    if arrived is None or plan.sampling is None or plan.over_time is None or len(plan.families) > 1 or not plan.keys:
        return 0
    (panes, *_) = plan.over_time.own(arrived)
    _, groups = np.unique(panes.time, return_counts=True)
    most = int(groups.max(initial=0))
    return 0 if plan.sampling.holds_groups(most, int(arrived.keys.nbytes)) else most


def whole_windows(
    plan: Plan,
    taken: Taken,
    now: Marks,
    chunks: ChunkStore | None,
    sampled: SampleStore | None,
    epoch: int = 0,
    paused: bool = False,
    rate: float = 0.0,
) -> WholeWindows | None:
    """What answers windows from their tuples or from samples of them, if the query needs that.

    `rate` is that of shedding in this batch, where it is not always the same.
    """
    if not plan.whole and sampled is None and plan.shedding is None:
        return None
    whole = WholeWindows(plan, taken.table, taken.tuples, now.settled, chunks)
    if sampled is not None:
        if taken.fresh is not None and taken.settled is not None:
            sampled.take_in(taken.fresh, taken.settled, epoch, paused)
        whole.approximate = ApproximateWindows(plan, sampled, whole)
    if plan.shedding is not None:
        whole.shed = ShedWindows(plan, whole, rate)
    return whole


def answers(
    plan: Plan,
    taken: Taken,
    closed: Marks,
    now: Marks,
    whole: WholeWindows | None,
    drift: DriftMeter | None = None,
) -> Iterator[pa.RecordBatch]:
    """Results of all windows that close with this batch."""
    for family in plan.families:
        if family.mark(now) > family.mark(closed):
            for batch in family.answers(plan, taken.table, family.mark(closed), family.mark(now), whole):
                yield batch.select(plan.result_schema.names) if plan.measures_drift else batch
                if drift is not None and family is plan.over_time:  # who waits for answers need not wait for this
                    drift.add(batch, taken.table.keys)


def keep_chunks(plan: Plan, chunks: ChunkStore, taken: Taken, table: PaneTable, closed: Marks, now: Marks) -> None:
    """Write the chunks that are complete, drop those that no window needs, compress the old ones.

    `table` is what is taken in, without what no window needs.
    """
    assert taken.tuples is not None
    complete = (taken.tuples.time < plan.complete_until(now)) & (taken.tuples.membership > 0)
    needed = NeededTuples(plan, table, now)
    new = replace(table, tuples=taken.tuples.take(complete))
    new = replace(new, tuples=new.tuples.take(needed.of(new))) if new.tuples is not None else new
    chunks.add(new, already=plan.complete_until(closed), in_pieces=plan.samples and not now.waits)
    drop_useless(chunks, needed)
    chunks.age()
    chunks.stay_within_limit(others=0 if table.tuples is None else table.tuples.nbytes)


def late_results(plan: Plan, rows: pa.Table, closed: Marks) -> list[pa.RecordBatch]:
    """Those rows that came too late for all of their windows."""
    times = np.asarray(rows.column(plan.time).cast(pa.int64()))
    return rows_as_results(plan, rows.filter(pa.array(closed.too_late(times, plan.all_windows))))


def rows_as_results(plan: Plan, rows: pa.Table) -> list[pa.RecordBatch]:
    """Results without a window: the keys, and the whole row in `late`."""
    assert plan.late_row is not None
    schema = plan.result_schema
    batches = []
    for batch in rows.to_batches():
        whole = pa.StructArray.from_arrays(
            [batch.column(field.name).cast(field.type) for field in plan.late_row], fields=list(plan.late_row)
        )
        known = {key: batch.column(key) for key in plan.keys} | {"late": whole}
        columns = [known.get(field.name, pa.nulls(batch.num_rows, field.type)) for field in schema]
        batches.append(pa.record_batch(columns, schema=schema))
    return batches
