"""The window stage (SPRINGALD's WLS) of one shard: packed panes and a watermark in, results of closed windows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pyarrow as pa

from muntin.families.family import ALWAYS, NEVER_MORE, Arrival
from muntin.panes import packed
from muntin.panes.grid import last_ends
from muntin.panes.store import Header, PaneStore, Totals, open_rows, without_closed, without_closed_of_part
from muntin.panes.table import PaneTable, compacted, merge
from muntin.plan import Plan
from muntin.stages.pane_stage import PackedPanes


@dataclass
class ShardMetrics:
    """What one shard did in one batch."""

    rows: int = 0
    late_rows: int = 0
    bad_rows: int = 0
    outside_rows: int = 0
    results: int = 0
    panes: int = 0
    tuples: int = 0
    hot_bytes: int = 0
    state_bytes: int = 0
    segments: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    total_rows: int = 0
    total_late_rows: int = 0
    total_bad_rows: int = 0
    total_outside_rows: int = 0
    total_results: int = 0

    def count(self, batch: Totals, totals: Totals) -> None:
        """Take over the counters of this batch, and those since the query first started."""
        for name, value in asdict(batch).items():
            setattr(self, name, value)
        for name, value in asdict(totals).items():
            setattr(self, f"total_{name}", value)


@dataclass
class WindowStage:
    """One batch of one shard. Iterate `advance` to its end, then read `metrics`."""

    plan: Plan
    store: PaneStore
    metrics: ShardMetrics = field(default_factory=ShardMetrics)

    def advance(self, arrived: Iterable[PackedPanes], watermark: int) -> Iterator[pa.RecordBatch]:
        """Take in what arrived, answer the windows that the watermark (in microseconds) closes, commit.

        A row counts for a window unless that window's end was at or before the watermark of the batch before this
        one: `closed`. The shard hears of every batch in which the watermark moved, so that is what its header says.
        """
        closed = self.store.header.watermark
        watermark = max(watermark, closed)
        before = self.store.table()
        arrived_table, counted, late = self._take_in(arrived, closed)
        yield from late
        table, added, bad_rows = absorb(self.plan, before, arrived_table, closed, watermark)
        counted = replace(counted, bad_rows=counted.bad_rows + bad_rows)
        if table is not None and table.size and watermark > closed:
            for batch in answers(self.plan, table, closed, watermark):
                counted = replace(counted, results=counted.results + batch.num_rows)
                yield batch
            table = compacted(self.plan.layout, without_closed(table, self.plan, watermark))
            added = None if added is None else without_closed_of_part(added, self.plan, watermark)
        header = self.store.commit(table, added, watermark, counted)
        self.metrics.count(counted, header.totals)
        self._measure(table, header)

    def _take_in(
        self, arrived: Iterable[PackedPanes], closed: int
    ) -> tuple[PaneTable | None, Totals, list[pa.RecordBatch]]:
        """The panes that arrived in time as one table, the counts, and the rows that came too late."""
        tables, rows, late_rows, bad_rows, outside_rows = [], 0, 0, 0, 0
        late: list[pa.RecordBatch] = []
        for each in arrived:
            rows += each.rows
            bad_rows += each.bad_rows
            outside_rows += each.outside_rows
            if each.panes is not None:
                table, too_late = open_rows(packed.unpack(self.plan.layout, each.panes), self.plan, closed)
                late_rows += too_late
                if table.size:
                    tables.append(table)
            if each.late_candidates is not None:
                late += late_results(self.plan, packed.unpack_rows(each.late_candidates), closed)
        added = merge(self.plan.layout, tables) if tables else None
        return added, Totals(rows, late_rows, bad_rows, outside_rows), late

    def _measure(self, table: PaneTable | None, header: Header) -> None:
        metrics = self.metrics
        metrics.state_bytes = sum(segment.size for segment in header.segments)
        metrics.segments = len(header.segments)
        if table is not None:
            metrics.panes = sum(len(family.own(table)[0]) for family in self.plan.families)
            metrics.tuples = 0 if table.tuples is None else len(table.tuples)
        metrics.hot_bytes = 0 if table is None else table.nbytes
        metrics.cache_hits, metrics.cache_misses = int(self.store.cache_hit), int(not self.store.cache_hit)


def absorb(
    plan: Plan, before: PaneTable | None, arrived: PaneTable | None, closed: int, watermark: int
) -> tuple[PaneTable | None, PaneTable | None, int]:
    """The table with what arrived, what was added to it, and how many tuples a family set aside."""
    present = [each for each in (before, arrived) if each is not None]
    if not present:
        return None, None, 0
    table = merge(plan.layout, present)
    if table.tuples is None:
        return table, arrived, 0
    fresh = np.arange(len(table.tuples)) >= (0 if before is None or before.tuples is None else len(before.tuples))
    settled = (table.tuples.time >= closed) & (table.tuples.time < watermark)
    arrival = Arrival(
        fresh=table.tuples.take(fresh),
        settled=table.tuples.take(settled).in_order() if plan.settles else table.tuples.take(np.zeros(0, np.int64)),
        closed=closed,
    )
    absorbed = [each for family in plan.over_tuples if (each := family.absorb(plan, table, arrival)) is not None]
    waiting = (table.tuples.time >= watermark) & plan.settles
    kept = table.only(tuples=waiting)
    made = [each.table for each in absorbed]
    new = [compacted(plan.layout, each, slack=0) for each in made]  # without the keys that nothing happened to
    if arrived is not None:
        new.insert(0, arrived.only(tuples=waiting[fresh]))
    added = merge(plan.layout, new, overlay=True) if new else None
    return merge(plan.layout, [kept, *made], overlay=True), added, sum(each.bad_rows for each in absorbed)


def answers(plan: Plan, table: PaneTable, after: int, until: int) -> Iterator[pa.RecordBatch]:
    """Results of all windows that close when the watermark moves from `after` to `until`."""
    for family in plan.families:
        yield from family.answers(plan, table, after, until)


def answer_table(
    plan: Plan, arrived: Iterable[PackedPanes], metrics: ShardMetrics | None = None
) -> Iterator[pa.RecordBatch]:
    """All windows of one shard of a table, which has no watermark: nothing is late and every window closes."""
    metrics = metrics or ShardMetrics()
    tables = []
    for each in arrived:
        metrics.rows += each.rows
        metrics.bad_rows += each.bad_rows
        metrics.outside_rows += each.outside_rows
        if each.panes is not None:
            tables.append(packed.unpack(plan.layout, each.panes))
    if tables:
        table, _, bad_rows = absorb(plan, None, merge(plan.layout, tables), ALWAYS, NEVER_MORE)
        metrics.bad_rows += bad_rows
        assert table is not None
        for batch in answers(plan, table, ALWAYS, NEVER_MORE):
            metrics.results += batch.num_rows
            yield batch


def late_results(plan: Plan, rows: pa.Table, closed: int) -> list[pa.RecordBatch]:
    """Rows that count nowhere, as results without a window: the keys, and the whole row in `late`."""
    times = np.asarray(rows.column(plan.time).cast(pa.int64()))
    late = rows.filter(pa.array(last_ends(times, plan.windows) <= closed))
    assert plan.late_row is not None
    schema = plan.result_schema
    batches = []
    for batch in late.to_batches():
        whole = pa.StructArray.from_arrays(
            [batch.column(field.name).cast(field.type) for field in plan.late_row], fields=list(plan.late_row)
        )
        known = {key: batch.column(key) for key in plan.keys} | {"late": whole}
        columns = [known.get(field.name, pa.nulls(batch.num_rows, field.type)) for field in schema]
        batches.append(pa.record_batch(columns, schema=schema))
    return batches
