"""The stages of a plan, and the stores of its shards: by zone where windows are in the time zone of each key."""

from __future__ import annotations

from collections.abc import Iterator

from muntin.engine.batch import Arrived
from muntin.engine.emitted import Emitted
from muntin.engine.features import Task
from muntin.engine.map_stage import PackedPanes, PaneStage
from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.engine.shard import EVERYTHING, Shard
from muntin.engine.state import StateBackend
from muntin.engine.store import HotCache, PaneStore, TableStore
from muntin.engine.zoned.map_stage import ZonedPaneStage
from muntin.engine.zoned.shard import ZonedShard
from muntin.engine.zoned.store import ZonedStore, ZonedTableStore


def pane_stage(plan: Plan, task: Task | None = None) -> PaneStage | ZonedPaneStage:
    """The map stage of a task."""
    return PaneStage(plan, task) if plan.zone_column is None else ZonedPaneStage(plan, task)


def stream_store(plan: Plan, query: str, shard: int, backend: StateBackend, cache: HotCache) -> PaneStore | ZonedStore:
    """The store of one shard of a stream, for one batch."""
    store = PaneStore if plan.zone_column is None else ZonedStore
    return store(plan, query, shard, backend, cache)


def window_stage(plan: Plan, store: PaneStore | ZonedStore, shard: int, task: Task) -> Shard | ZonedShard:
    """One batch of one shard of a stream."""
    return ZonedShard(plan, store, shard, task) if isinstance(store, ZonedStore) else Shard(plan, store, shard, task)


def table_run(
    plan: Plan, sent: list[PackedPanes] | Arrived, shard: int, task: Task
) -> tuple[Iterator[Emitted], Metrics]:
    """What a shard of a table emits, and its metrics, which are complete at the end."""
    if plan.zone_column is None:
        stage = Shard(plan, TableStore(plan), shard, task)
        return stage.run(sent, EVERYTHING), stage.metrics
    assert not isinstance(sent, Arrived), "panes of uneven lengths are made where zones are known"
    zones = ZonedShard(plan, ZonedTableStore(plan), shard, task)
    return zones.run(sent, EVERYTHING), zones.metrics
