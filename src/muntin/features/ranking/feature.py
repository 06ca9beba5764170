"""Ranking as a feature: every shard keeps its best groups, and one task ranks those of all shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from muntin.engine.batch import ShardBatch
from muntin.engine.emitted import Emitted, Results
from muntin.engine.features import Collect, Feature, ShardFeature, Spread, Task
from muntin.engine.plan import Plan
from muntin.features.order import RANKING
from muntin.features.ranking.merged import merged, ranked_schema
from muntin.features.ranking.order import best
from muntin.features.ranking.policy import Top


@dataclass(frozen=True)
class Ranking(Feature):
    """Only the k best groups of each window."""

    top: Top
    name = "top"
    order = RANKING

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature | None:
        return self.on_job(plan)

    def on_job(self, plan: Plan) -> ShardFeature | None:
        """With estimates no group is dropped, because all of them determine how certain a place is."""
        return None if plan.schema.is_estimated else BestOfShard(plan, self.top)

    def steps(self, plan: Plan) -> Iterable[Spread | Collect]:
        yield Collect(partial(merged, plan, self.top), ranked_schema(plan))


class BestOfShard(ShardFeature):
    """The k best groups of a shard: no other group can be among the k best of all shards."""

    def __init__(self, plan: Plan, top: Top) -> None:
        self._plan = plan
        self._top = top

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        for item in emitted:
            if isinstance(item, Results):
                yield replace(item, rows=best(self._plan, self._top, item.rows), windows=None, count=len(item))
            else:
                yield item
