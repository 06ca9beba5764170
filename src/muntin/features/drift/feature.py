"""Concept drift as a feature, for queries that compare the groups of a window anyway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from muntin.engine.batch import ShardBatch
from muntin.engine.emitted import Emitted, Results
from muntin.engine.features import Feature, ShardFeature, Task
from muntin.engine.hidden import SIZE
from muntin.engine.metrics import Metric
from muntin.engine.plan import Draft, Plan
from muntin.features.drift.meter import DriftMeter
from muntin.features.order import DRIFT

METRICS = (
    Metric(
        "drift_common",
        "Over all pairs of neighbouring windows that closed with the last batch in which there were any: groups that "
        "are in both.",
    ),
    Metric("drift_union", "Groups that are in either."),
    Metric("drift_apart", "By how many rows groups differ."),
    Metric("drift_total", "How many rows they have."),
)


@dataclass(frozen=True)
class Drift(Feature):
    """How much the groups of consecutive windows differ."""

    name = "drift"
    order = DRIFT
    metrics = METRICS

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return DriftOfShard(plan)


def with_drift(draft: Draft) -> Draft:
    """The draft with drift, where it can be measured.

    Consecutive windows are compared, so a shard must answer all windows of its keys.
    """
    compares = draft.streaming and draft.function is None and bool(draft.keys) and draft.answers_all_windows
    if not compares or draft.has(Drift.name):
        return draft
    return replace(draft.with_feature(Drift()), needs_size=True, eager=draft.eager | {SIZE})


class DriftOfShard(ShardFeature):
    """The drift of one shard in one batch."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def begin(self, batch: ShardBatch) -> None:
        self._meter = DriftMeter.since(self._plan, batch.notes.get("last_windows"))

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        for item in emitted:
            yield item  # results do not wait for the drift
            if isinstance(item, Results) and item.windows is not None and batch is not None:
                assert batch.ingested is not None
                answers, rows = item.windows.answers, np.asarray(item.windows.values[SIZE])
                self._meter.add(answers, rows, batch.ingested.table.keys)

    def answered(self, batch: ShardBatch) -> None:
        meter, metrics = self._meter, batch.metrics
        meter.finish(batch.now.watermark)
        metrics["drift_common"], metrics["drift_union"] = meter.common, meter.union
        metrics["drift_apart"], metrics["drift_total"] = meter.apart, meter.total
        batch.new_notes["last_windows"] = meter.last
