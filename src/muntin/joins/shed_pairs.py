"""Aggregates over the pairs of kept tuples, scaled back to all pairs: a feature of the query over the pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.engine.answers import Answered, AnswerLink, ClosedWindows
from muntin.engine.batch import ShardBatch
from muntin.engine.contents import ShardTuples
from muntin.engine.estimates import patched
from muntin.engine.features import Knob, ShardFeature, Task
from muntin.engine.plan import Draft, Plan
from muntin.features.order import SHEDDING
from muntin.features.shedding.plan import check
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.registry import scaled_of
from muntin.features.shedding.scaled import Measure, Scaled
from muntin.features.shedding.windows import set_interval, typed
from muntin.joins.kept_pairs import AllPairs, KeptPairs
from muntin.panes import keys as key_codes
from muntin.panes.table import PaneTable, key_columns
from muntin.windows import Window


@dataclass(frozen=True)
class PairEstimates(Knob):
    """Estimates of all pairs from the kept ones."""

    shedding: Shedding
    pairs: KeptPairs | None = None
    """The kept pairs of the windows to answer."""
    name = "shed"
    order = SHEDDING
    estimates = True

    def check_windows(self, windows: Sequence[Window], aggregates: Mapping[str, Bound]) -> None:
        check(windows, aggregates, incremental=False)

    def plan(self, draft: Draft) -> Draft:
        return replace(draft.with_feature(self), weighs=True)

    def kept(self, plan: Plan, measured: Sequence[Measure], pairs: pa.RecordBatch) -> KeptPairs:
        """What estimates need of pairs, beside their partials."""
        return KeptPairs.of(measured, key_columns(pairs, plan.layout.keys), pairs)

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        assert self.pairs is not None, "pairs are kept first"
        return ShedPairs(plan, self.shedding, self.pairs)


def scaled(plan: Plan) -> dict[str, Scaled | None]:
    """How each aggregate is scaled back."""
    return {output.name: scaled_of(output.bound.aggregate, output.bound) for output in plan.outputs}


def measures(plan: Plan) -> tuple[Measure, ...]:
    """The measures that are estimated for all pairs."""
    scales = scaled(plan).values()
    return tuple(dict.fromkeys(scale.measure for scale in scales if scale is not None and scale.measure is not None))


class ShedPairs(ShardFeature):
    """The feature, for the windows that are answered together."""

    def __init__(self, plan: Plan, shedding: Shedding, pairs: KeptPairs) -> None:
        self._plan = plan
        self._shedding = shedding
        self._pairs = pairs

    def link(self, inner: AnswerLink, tuples: ShardTuples, batch: ShardBatch | None) -> AnswerLink:
        assert batch is not None
        assert batch.ingested is not None
        return PairsScaledBack(self._plan, self._shedding, self._pairs, inner, batch.ingested.table)


@dataclass(frozen=True)
class PairsScaledBack:
    """The link that scales aggregates of kept pairs back to all pairs, with intervals."""

    plan: Plan
    shedding: Shedding
    pairs: KeptPairs
    inner: AnswerLink
    table: PaneTable

    @cached_property
    def _scaled(self) -> dict[str, Scaled | None]:
        return scaled(self.plan)

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        for answered in self.inner.answer(windows):
            yield self._scaled_back(answered)

    def _scaled_back(self, answered: Answered) -> Answered:
        codes = pa.array(answered.windows.answers.key)
        keys = [key_codes.normalised(self.table.keys.column(name).take(codes)) for name in self.plan.keys]
        groups = self.pairs.numbers(keys)
        values = dict(answered.values)
        confidence = self.shedding.confidence
        estimates = self.pairs.quality(groups, confidence)
        shed = estimates.approximate
        shed_groups = groups[shed]
        doubt = self.pairs.doubt(confidence)[shed_groups]
        if self.shedding.is_uniform:  # the number of pairs is an estimate
            doubt = np.full(len(shed), np.nan)
        of_all = AllPairs(estimates.size[shed].astype(np.float64), doubt)
        moments = {
            measure: tuple(column[shed_groups] for column in state)
            for measure, state in zip(measures(self.plan), self.pairs.moments, strict=True)
        }
        for output in self.plan.outputs:
            name, scale = output.name, self._scaled[output.name]
            kept_values, interval = values[name].take(pa.array(shed)), None
            if scale is not None and scale.measure is not None:
                interval = of_all.interval(scale, moments[scale.measure])
                values[name] = patched(values[name], shed, typed(interval.value, kept_values, output))
            elif scale is not None:
                interval = scale.interval(kept_values, None, confidence)
            set_interval(estimates, name, interval, shed, values[name])
        return replace(answered, values=values, estimates=estimates)
