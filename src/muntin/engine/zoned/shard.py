"""The window stage by zone: every zone of a shard is run as a shard of its own, and all of them commit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from muntin.engine.batch import Arrived
from muntin.engine.emitted import Emitted
from muntin.engine.features import Task
from muntin.engine.map_stage import NO_TIME, PackedPanes
from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.engine.shard import Shard, advanced
from muntin.engine.zoned.store import ZonesOfShard


@dataclass
class ZonedShard:
    """One batch of one shard. Iterate `run` to its end, then read `metrics`."""

    plan: Plan
    store: ZonesOfShard
    shard: int = 0
    task: Task = field(default_factory=Task)
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.plan.metrics)

    def run(self, sent: Iterable[PackedPanes], watermark: int) -> Iterator[Emitted]:
        """See `Shard.run`. Results are in window order within each zone.

        Zones without tuples run, too: their windows close, and all zones have the watermarks of the shard.
        """
        closed = self.store.header.watermarks
        by_zone: dict[str | None, list[PackedPanes]] = {zone: [] for zone in self.store.zones}
        for share in sent:
            by_zone.setdefault(share.zone, []).append(share)
        latest = max((share.latest for shares in by_zone.values() for share in shares), default=NO_TIME)
        self.metrics.add(**Arrived.of(by_zone.pop(None, ()), self.plan, closed, {}).counts)
        for zone in sorted(zone for zone in by_zone if zone is not None):
            plan = self.plan.of_zone(zone)
            run = Shard(plan, self.store.of_zone(plan, zone), self.shard, self.task, latest)
            yield from run.run(by_zone.pop(zone), watermark)
            self._add(run.metrics)
        missed = self.metrics["cache_misses"] > 0  # of a shard, and not of a zone
        hit = self.metrics["cache_hits"] > 0 and not missed
        self.metrics["cache_hits"], self.metrics["cache_misses"] = int(hit), int(missed)
        header = self.store.commit(advanced(self.plan, closed, watermark, latest), self.metrics.counters)
        self.metrics.set_totals(header.totals)

    def _add(self, of_zone: Metrics) -> None:
        for metric in self.plan.metrics:
            values = self.metrics[metric.name], of_zone[metric.name]
            self.metrics[metric.name] = max(values) if metric.fold == "max" else sum(values)
