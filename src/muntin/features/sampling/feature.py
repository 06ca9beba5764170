"""SPEAr as a feature: tuples are sampled as they arrive, and windows are answered from good enough samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from muntin.engine.answers import AnswerLink
from muntin.engine.batch import ShardBatch
from muntin.engine.contents import ShardTuples
from muntin.engine.estimates import ESTIMATE_METRICS
from muntin.engine.features import Feature, ShardFeature, Task
from muntin.engine.metrics import Metric
from muntin.engine.operators.operator import NEVER_MORE
from muntin.engine.plan import Plan
from muntin.features.order import SAMPLING
from muntin.features.sampling.packed import pack_samples, unpack_samples
from muntin.features.sampling.pause import Pause
from muntin.features.sampling.plan import SamplingPlan
from muntin.features.sampling.policy import Approximation
from muntin.features.sampling.store import SampleStore, ShardSamples
from muntin.features.sampling.windows import SampledAnswers
from muntin.panes.table import PaneTable


@dataclass(frozen=True)
class Sampling(Feature):
    """Answers from samples."""

    plan: SamplingPlan
    name = "approximate"
    order = SAMPLING
    estimates = True
    metrics = (
        *ESTIMATE_METRICS,
        Metric("sample_tuples", "Tuples in the samples of open windows."),
        Metric("sample_bytes", "Bytes of those samples."),
    )

    @property
    def policy(self) -> Approximation:
        return self.plan.policy

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return SampledShard(plan, self.plan, plan.shards.index(shard))

    def is_exact(self, name: str) -> bool:
        return name not in self.plan.estimators

    def identity(self) -> tuple[object, ...]:
        return (self.policy.seed, [spec.columns for spec in self.plan.specs])

    def described(self) -> Mapping[str, Any]:
        samples = [list(spec.columns) for spec in self.plan.specs]
        return {
            "call": "approximate()",
            "compared": ["seed"],
            "seed": self.policy.seed,
            "samples": samples,
            "written": self.policy.written,
        }


class SampledShard(ShardFeature):
    """The samples of one shard, in one batch."""

    def __init__(self, plan: Plan, sampling: SamplingPlan, index: int) -> None:
        self._plan = plan
        self._sampling = sampling
        self._index = index
        self._store: SampleStore | None = None
        self._samples: ShardSamples | None = None
        self._link: SampledAnswers | None = None

    def begin(self, batch: ShardBatch) -> None:
        parts = batch.header.parts
        self._stored: tuple[str, int] | None = _location(parts.get("samples"))
        self._falls_back = bool(parts.get("falls_back", True))
        self._pause = Pause.decode(**parts.get("pause", {}))
        batch.chunks.holds = not self._sampling.specs or self._falls_back
        now = batch.now.finalized
        is_table = batch.now.watermark >= NEVER_MORE  # whose windows all close at once: there is nothing to pause
        if not is_table and self._pause.is_first and (groups := crowd(self._plan, self._sampling, batch.arrived)):
            self._pause = self._pause.from_the_start(now, groups)
        self._is_paused = self._pause.is_on(now)
        waits = self._is_paused and bool(self._sampling.specs) and not self._plan.needs_order
        batch.now = replace(batch.now, waits=waits)

    def ingested(self, batch: ShardBatch) -> None:
        """Sample the new tuples."""
        ingested = batch.ingested
        assert ingested is not None
        if batch.now.waits and batch.arrived is not None and batch.arrived.tuples is not None:
            self._pause = self._pause.with_unsampled(batch.arrived.tuples.time)
        before = self._restored(batch)
        # In a table all windows close at once, so the budget is divided among the windows open before.
        open_at = batch.closed if batch.now.watermark >= NEVER_MORE else batch.now
        self._store = SampleStore(self._plan, self._sampling, self._index, ingested.table, before, open_at, self._pause)
        if self._sampling.specs and not batch.now.waits:
            fresh, finalized = ingested.fresh, ingested.finalized
            if fresh is not None and finalized is not None:
                self._store.ingest(fresh, finalized, batch.header.totals.get("rows", 0), self._is_paused)

    def _restored(self, batch: ShardBatch) -> ShardSamples:
        """The samples of the last batch."""
        samples: ShardSamples | None = batch.notes.get("samples")
        if samples is None and self._stored is not None:
            samples = batch.values.read(*self._stored, partial(unpack_samples, self._plan, self._sampling))
        # Samples without tuples may still have cuts.
        return ShardSamples.none(self._plan, self._sampling) if samples is None else samples

    def link(self, inner: AnswerLink, tuples: ShardTuples, batch: ShardBatch | None) -> AnswerLink:
        assert self._store is not None, "samples stay with their shard"
        self._link = SampledAnswers(self._plan, self._sampling, self._store, inner, tuples)
        return self._link

    def answered(self, batch: ShardBatch) -> None:
        if self._link is None:
            return
        counted = self._link.counted
        batch.metrics.add(answer_bytes=counted.sample_bytes)
        batch.metrics["exact_windows"], batch.metrics["approximate_windows"] = counted.exact, counted.approximate
        if counted.exact or counted.approximate:
            self._falls_back = counted.read > 0
        self._pause = self._pause.after(
            batch.now.finalized, counted.helped, counted.failed, counted.feasible, counted.closed, counted.looked_at
        )

    def prune(self, batch: ShardBatch) -> None:
        assert self._store is not None
        assert batch.left is not None
        self._samples = self._store.prune(batch.left, batch.closed, batch.now)

    def commit(self, batch: ShardBatch) -> Mapping[str, Any]:
        if self._sampling.specs and not self._falls_back:
            batch.chunks.leave_to_state()
        samples = None
        if self._samples is not None and batch.left is not None:
            samples = self._samples.with_keys_of(self._plan, batch.left)
            batch.metrics["sample_tuples"], batch.metrics["sample_bytes"] = len(samples), samples.nbytes
        stored = self._written(batch, samples)
        batch.remembers_table = self._fits_budget(batch)
        if batch.remembers_table and samples is not None:
            batch.new_notes["samples"] = samples
        return {"samples": stored, "falls_back": self._falls_back, "pause": asdict(self._pause)}

    def _written(self, batch: ShardBatch, samples: ShardSamples | None) -> tuple[str, int] | None:
        """Store all samples of the shard as one value, which the budget bounds; rewritten only if they changed."""
        before = batch.notes.get("samples")
        if samples is not None and before is not None and samples.is_still(before):
            return self._stored
        if self._stored is not None:
            batch.values.delete(*self._stored)
        if samples is None or samples.is_empty:
            return None
        name, value = f"samples-{uuid4().hex}", pack_samples(samples)
        batch.values.write(name, value)
        return name, len(value)

    def _fits_budget(self, batch: ShardBatch) -> bool:
        """Whether the table may stay in memory; with more groups than the budget allows it is read from the state.

        If all windows are answered exactly, their tuples are in memory anyway.
        """
        if batch.left is None or self._sampling.infeasible or batch.now.waits:
            return True
        return self._sampling.holds_groups(batch.left.keys.num_rows, int(batch.left.keys.nbytes))


def _location(stored: Any) -> tuple[str, int] | None:
    """The name and the size of the value with the samples."""
    return None if stored is None else (str(stored[0]), int(stored[1]))


def crowd(plan: Plan, sampling: SamplingPlan, arrived: PaneTable | None) -> int:
    """The groups of the fullest pane if they exceed the budget, so that windows over it have no sample; else 0."""
    operator = plan.over_time
    if arrived is None or operator is None or len(plan.operators) > 1 or not plan.keys:
        return 0
    (panes, *_) = operator.own(arrived)
    _, groups = np.unique(panes.time, return_counts=True)
    fullest = int(groups.max(initial=0))
    return 0 if sampling.holds_groups(fullest, int(arrived.keys.nbytes)) else fullest
