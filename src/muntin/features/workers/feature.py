"""Worker models as features: windows are dealt to active workers, or handed out as jobs in the agnostic model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from muntin.arrays import BoolArray, Int64Array
from muntin.engine.batch import ShardBatch
from muntin.engine.emitted import Emitted
from muntin.engine.features import Collect, Feature, RowFeature, ShardFeature, Spread, Task
from muntin.engine.plan import Draft, Plan
from muntin.features.order import ORDERED, WORKERS
from muntin.features.workers.collector import in_window_order
from muntin.features.workers.dealing import Dealing, Worker, deal_out, dealt_operators, in_private_panes
from muntin.features.workers.jobs import done, window_jobs
from muntin.features.workers.policy import Workers
from muntin.panes.table import Layout, PaneTable
from muntin.panes.watermarks import Watermarks


def with_workers(draft: Draft, workers: Workers) -> Draft:
    """The draft with the worker model; the keyed model needs no feature."""
    if workers.ordered:
        draft = draft.with_feature(Ordered())
    if workers.model == "active":
        dealing = Dealing(draft.windows, len(draft.shards), workers.batch)
        draft = replace(draft.with_feature(ActiveWorkers(dealing)), answers_all_windows=False)
    if workers.model == "agnostic":
        draft = replace(draft.with_feature(AgnosticWorkers(workers.tasks)), answers_all_windows=False)
    return draft


@dataclass(frozen=True)
class Ordered(Feature):
    """The results of a batch are sorted."""

    name = "ordered"
    order = ORDERED

    def steps(self, plan: Plan) -> Iterable[Spread | Collect]:
        """Nothing, if another feature brings the results of all shards into one order anyway."""
        others = (step for feature in plan.features if feature is not self for step in feature.steps(plan))
        if not any(isinstance(step, Collect) for step in others):
            yield Collect(partial(in_window_order, plan), plan.result_schema)


@dataclass(frozen=True)
class AgnosticWorkers(Feature):
    """Shards hand out their closed windows as jobs and answer none themselves."""

    tasks: int
    name = "agnostic"
    order = WORKERS

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return Emitter(self.tasks)

    def steps(self, plan: Plan) -> Iterable[Spread | Collect]:
        yield Spread(self.tasks)

    def job_results(self, plan: Plan, payload: Any) -> Iterator[pa.RecordBatch]:
        return done(plan, payload)


class Emitter(ShardFeature):
    """The emitter of one shard in one batch."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        assert batch is not None, "a job hands out no jobs"
        for job in window_jobs(batch, self._tasks):
            batch.metrics.add(jobs=1)
            yield job


@dataclass(frozen=True)
class ActiveWorkers(Feature):
    """Every shard is a worker with its own windows."""

    dealing: Dealing
    worker: Worker | None = None
    """The worker, once a shard has its plan."""
    name = "active"
    order = WORKERS

    def on_map(self, plan: Plan, task: Task) -> RowFeature:
        return DealtRows(self.dealing, plan.layout)

    def of_shard(self, plan: Plan, index: int) -> Plan:
        worker = Worker(index, self.dealing)
        features = tuple(replace(self, worker=worker) if feature is self else feature for feature in plan.features)
        return replace(plan, operators=dealt_operators(plan.operators, worker.deal), features=features)

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature | None:
        return None if self.worker is None else ActiveShard(plan, self.worker)

    def described(self) -> Mapping[str, Any]:
        if self.worker is None:
            return {}
        return {
            "call": "parallel()",
            "of": "worker model",
            "choice": "active",
            "compared": ["batch"],
            "batch": self.dealing.batch,
        }


class DealtRows(RowFeature):
    """Panes go to the workers whose windows contain them."""

    def __init__(self, dealing: Dealing, layout: Layout) -> None:
        self._dealing = dealing
        self._layout = layout

    def split(self, table: PaneTable) -> Mapping[int, PaneTable]:
        return deal_out(self._dealing, self._layout, table)


class ActiveShard(ShardFeature):
    """One worker in one batch. Several workers may get the same pane; one of them counts it."""

    def __init__(self, plan: Plan, worker: Worker) -> None:
        self._plan = plan
        self._worker = worker

    def arrived(self, table: PaneTable) -> PaneTable:
        operator = self._plan.over_time
        return table if operator is None else in_private_panes(operator, table)

    def late(self, late: BoolArray, times: Int64Array, closed: Watermarks, of_tuples: bool) -> BoolArray:
        return self._worker.counts(times, of_tuples) & closed.too_late(times, self._plan.windows)
