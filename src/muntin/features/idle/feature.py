"""Idle streams as a feature: it moves the watermark of a shard on while the source has nothing to give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muntin.engine.batch import Arrived, ShardBatch
from muntin.engine.features import Feature, ShardFeature, Task
from muntin.engine.map_stage import DRAIN, NO_TIME
from muntin.engine.metrics import Metric
from muntin.engine.plan import Plan
from muntin.engine.store import STREAM_WATERMARK, Header
from muntin.features.idle.inputs import Inputs
from muntin.features.order import IDLE

HEADER = "idle"


@dataclass(frozen=True)
class Idling(Feature):
    """Windows close although no row comes any more."""

    after: int | None
    """How long an input has nothing before it is idle, in microseconds; None if none ever is."""
    drains: bool
    """Whether a bounded run that finds no new rows closes all windows."""
    delays: tuple[int | None, ...]
    """The delay of each input; None for an input with a watermark of its own."""
    by_rows: tuple[bool, ...] = ()
    """For each input whether only rows show that its source had data; else tasks do, even if a filter left no row."""
    name = "idle"
    order = IDLE
    metrics = (
        Metric("idle_results", "The results of windows that closed as the source had nothing to give.", counter=True),
        Metric("drains", "Bounded runs that closed all windows at their end.", counter=True, fold="max"),
        Metric(
            "idle_ahead",
            "How far the watermark of the query is ahead of Spark's, as its source was idle, in microseconds.",
            fold="max",
        ),
    )

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return IdleShard(self, plan, task)


class IdleShard(ShardFeature):
    """The inputs, as one shard knows them, in one batch."""

    def __init__(self, policy: Idling, plan: Plan, task: Task) -> None:
        self._policy = policy
        self._plan = plan
        self._clock = task.clock

    def watermark(self, watermark: int, arrived: Arrived, header: Header) -> int:
        """Spark's watermark, or a later one while inputs are idle."""
        policy = self._policy
        before = Inputs.of(header.parts.get(HEADER, ()), len(policy.delays))
        with_data = {
            number: latest
            for number, latest in arrived.inputs.items()
            if number >= 0 and (latest > NO_TIME or not any(policy.by_rows[number : number + 1]))
        }
        self._stream, self._drains = watermark, False
        self._inputs = before.after(with_data, self._clock)
        if policy.after is not None:
            watermark = before.watermark(with_data, self._clock, policy.after, policy.delays, watermark)
        if policy.drains and DRAIN in arrived.inputs and not with_data:
            self._drains = True
            watermark = max(watermark, self._end(before.latest))
        return watermark

    def _end(self, latest: int) -> int:
        """The watermark at which all windows of rows up to a time have closed."""
        return NO_TIME if latest == NO_TIME else max(window.closed_at(latest) for window in self._plan.windows)

    def answered(self, batch: ShardBatch) -> None:
        reached = batch.now.watermark + self._plan.correctable
        if reached > self._stream:
            batch.metrics["idle_ahead"] = reached - self._stream
            batch.metrics.add(idle_results=batch.metrics.results)
        batch.metrics.add(drains=int(self._drains))

    def commit(self, batch: ShardBatch) -> Mapping[str, Any]:
        return {HEADER: self._inputs.header, STREAM_WATERMARK: self._stream}
