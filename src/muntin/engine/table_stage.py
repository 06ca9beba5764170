"""The window stage of a table: all panes of a shard at once, and no state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from muntin.engine.ingest import absorb
from muntin.engine.map_stage import PackedPanes
from muntin.engine.metrics import ShardMetrics
from muntin.engine.operators.operator import ALWAYS, NEVER_MORE
from muntin.engine.store import Totals
from muntin.engine.window_stage import answers, rows_as_results, whole_windows
from muntin.features.ranking.order import best
from muntin.features.sampling.store import SampleStore, ShardSamples
from muntin.features.workers.dealing import in_private_panes
from muntin.features.workers.jobs import Job, computed, window_jobs
from muntin.panes import packed
from muntin.panes.table import merge
from muntin.panes.watermarks import Marks
from muntin.plan import Plan

ALL_TIMES = Marks.at(ALWAYS), Marks.at(NEVER_MORE)
"""A table is a stream whose only batch moves the marks from before all times to behind them."""


def answer_table(
    plan: Plan, arrived: Iterable[PackedPanes], metrics: ShardMetrics | None = None
) -> Iterator[pa.RecordBatch]:
    """Results of all windows of one shard of a table."""
    yield from computed(plan, advance_table(plan, arrived, metrics))


def advance_table(
    plan: Plan, arrived: Iterable[PackedPanes], metrics: ShardMetrics | None = None
) -> Iterator[pa.RecordBatch | Job]:
    """The same, or jobs: a table has no watermark, so that nothing is late and every window closes."""
    metrics = metrics or ShardMetrics()
    tables, shard = [], plan.shards[0]
    for each in arrived:
        shard = each.shard
        metrics.rows += each.rows
        metrics.bad_rows += each.bad_rows
        metrics.outside_rows += each.outside_rows
        metrics.shed_rows += each.shed_rows
        metrics.ahead_rows += each.ahead_rows
        metrics.shed_rate = max(metrics.shed_rate, each.shed_rate)
        if each.panes is not None:
            metrics.arrived_bytes += len(each.panes)
            tables.append(in_private_panes(plan, packed.unpack(plan.layout, each.panes)))
        if each.ahead is not None:
            yield from rows_as_results(plan, packed.unpack_rows(each.ahead))
    if tables:
        taken = absorb(plan, None, merge(plan.layout, tables), *ALL_TIMES)
        assert taken is not None, "there are tables"
        metrics.bad_rows += taken.bad_rows
        sampled = None
        if plan.sampling is not None:
            sampled = SampleStore(plan, plan.shards.index(shard), taken.table, ShardSamples.none(plan), ALL_TIMES[0])
        whole = whole_windows(plan, taken, ALL_TIMES[1], None, sampled)
        if plan.workers.model == "agnostic":
            for job in window_jobs(plan, taken.table, *ALL_TIMES, whole):
                metrics.jobs += 1
                metrics.results += len(job)
                yield job
            return
        for batch in answers(plan, taken, *ALL_TIMES, whole):
            metrics.results += batch.num_rows
            yield best(plan, batch)
        if whole is not None and whole.shed is not None:
            told = metrics.count_shed(Totals(), whole.shed)
            metrics.exact_windows, metrics.approximate_windows = told.exact_windows, told.approximate_windows
        elif whole is not None and whole.approximate is not None:
            metrics.exact_windows += whole.approximate.counted.exact
            metrics.approximate_windows += whole.approximate.counted.approximate
