"""Shedding at the source: rows are gone before anybody counts them, and every answer is an estimate.

Every row is kept with the same probability, independently of all others. So the number of kept rows of a group has a
binomial distribution, and given that number, they are a simple random sample of the group. All that is certain follows
from these two sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array, Int64Array
from muntin.engine.answers import Answered, AnswerLink, ClosedWindows
from muntin.engine.batch import ShardBatch
from muntin.engine.contents import OfContents, ShardTuples
from muntin.engine.estimates import EXACT, INCREMENTAL, Estimates
from muntin.engine.features import Feature, ShardFeature, Task
from muntin.engine.hidden import SIZE
from muntin.engine.metrics import Metric
from muntin.engine.operators.operator import Output
from muntin.engine.plan import Plan
from muntin.features.order import SHEDDING
from muntin.features.shedding.feature import ANSWERED, MILLION, RATE, report
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.registry import scaled_of
from muntin.features.shedding.windows import ShedCounts, corrected, set_interval, times
from muntin.holistic.contents import WindowContents
from muntin.holistic.frequent import TopK
from muntin.holistic.quantiles import Quantiles
from muntin.partials.values import is_numeric
from muntin.statistics.counted import all_tuples
from muntin.statistics.quantiles import intervals_for_any_size


@dataclass(frozen=True)
class SourceShedding(Feature):
    """Tuples are shed before any stage reads them."""

    policy: Shedding
    apart: bool
    """Whether the source decides for every row by itself. Else nothing certain follows from how many are kept."""
    name = "shed"
    order = SHEDDING
    estimates = True
    estimates_size = True
    metrics = (
        Metric(
            "source_shed_rows",
            "An estimate of the rows that were shed at the source, from the rate: nobody has counted them. They are "
            "not among `rows`.",
            counter=True,
        ),
        RATE,
        *ANSWERED,
    )

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return SourceShard(plan, self)

    def on_job(self, plan: Plan) -> ShardFeature:
        return SourceShard(plan, self)

    def is_exact(self, name: str) -> bool:
        return self.policy.kept == 1

    def identity(self) -> tuple[object, ...]:
        """Windows are scaled by one probability when they close, and bounded if every row was chosen by itself."""
        return ("kept at the source", self.policy.kept, self.apart)

    def described(self) -> Mapping[str, Any]:
        return {
            "call": "shed()",
            "compared": ["aggregates"],
            "aggregates": f"of rows kept at the source, a share of {self.policy.kept:g}, "
            + ("each by itself" if self.apart else "equal ones together"),
            "written": self.policy.written,
        }


class SourceShard(ShardFeature):
    """Shedding at the source, in one batch of one shard."""

    def __init__(self, plan: Plan, feature: SourceShedding) -> None:
        self._plan = plan
        self._feature = feature
        self._link: AtSource | None = None

    def begin(self, batch: ShardBatch) -> None:
        kept = self._feature.policy.kept
        batch.metrics["shed_rate"] = round((1 - kept) * MILLION)
        batch.metrics["source_shed_rows"] = round(batch.metrics["rows"] * (1 - kept) / kept)

    def link(self, inner: AnswerLink, tuples: ShardTuples, batch: ShardBatch | None) -> AnswerLink:
        self._link = AtSource(self._plan, self._feature, inner)
        return self._link

    def answered(self, batch: ShardBatch) -> None:
        if self._link is not None:
            report(self._link.counted, batch.metrics)


_BOUNDS = "bounds of "


class AtSource:
    """The link that scales answers from kept tuples to all tuples."""

    def __init__(self, plan: Plan, feature: SourceShedding, inner: AnswerLink) -> None:
        self._plan = plan
        self._policy = feature.policy
        self._apart = feature.apart
        self._inner = inner
        self.counted = ShedCounts()

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        kept = np.asarray(windows.values[SIZE])
        size = np.rint(kept / self._policy.kept).astype(np.int64)
        self.counted.rows += int(size.sum())
        self.counted.kept_rows += int(kept.sum())
        if self._plan.function is not None:
            yield from self._of_function(windows, kept, size)
            return
        estimates = self._estimates(kept, size)
        bounded = self._bounding if self._policy.kept < 1 and self._apart else {}
        (answered,) = self._inner.answer(replace(windows, also=bounded))
        answers = {name: values for name, values in answered.values.items() if name not in bounded}
        if len(estimates.approximate):
            for output in self._plan.outputs:
                bounds = answered.values[_BOUNDS + output.name] if _BOUNDS + output.name in bounded else None
                self._scale(output, answers, bounds, estimates)
        self.counted.count(estimates)
        yield Answered(windows, answers, estimates)

    def _estimates(self, kept: Int64Array, size: Int64Array) -> Estimates:
        approximate = np.arange(len(size) if self._policy.kept < 1 else 0)
        exactly = EXACT if self._plan.keeps_tuples else INCREMENTAL
        return Estimates(approximate, exactly, np.zeros(len(approximate)), self._policy.confidence, kept, size)

    def _of_function(self, windows: ClosedWindows, kept: Int64Array, size: Int64Array) -> Iterator[Answered]:
        estimates = self._estimates(kept, size)
        estimates.may_be_off(np.full(len(estimates.approximate), np.nan))
        self.counted.count(estimates)
        for answered in self._inner.answer(windows):
            yield replace(answered, estimates=estimates)

    @cached_property
    def _bounding(self) -> dict[str, OfContents]:
        """The functions that bound quantiles."""
        confidence = self._policy.confidence
        return {
            _BOUNDS + output.name: partial(_bounds, output.bound.holistic, confidence)
            for output in self._plan.outputs
            if isinstance(output.bound.holistic, Quantiles)
        }

    def _scale(
        self, output: Output, answers: dict[str, pa.Array], bounds: pa.Array | None, estimates: Estimates
    ) -> None:
        """Scale one aggregate, and set its interval where there is a certain one. All windows are approximate."""
        name, share, every = output.name, self._policy.kept, estimates.approximate
        kept_answers, interval = answers[name], None
        if output.bound.holistic is not None:
            if isinstance(output.bound.holistic, TopK):
                answers[name] = times(kept_answers, np.full(len(every), 1 / share))
            estimates.may_be_off(np.full(len(every), np.nan))
            sides = (None, None) if bounds is None else (bounds.field("low"), bounds.field("high"))
            estimates.low[name], estimates.high[name] = sides
            return
        scaled = scaled_of(output.bound.aggregate, output.bound)
        assert scaled is not None, "other aggregates are refused"
        if scaled.kind in ("count", "sum"):
            value = _numbers(kept_answers) / share
            answers[name] = corrected(kept_answers, every, value, kept_answers, output)
            if scaled.kind == "count" and self._apart:
                interval = all_tuples(np.asarray(kept_answers), share, self._policy.confidence)
        elif scaled.kind in ("least", "greatest"):
            interval = scaled.interval(kept_answers, None, self._policy.confidence)
        set_interval(estimates, name, interval, every, answers[name])


def _numbers(answers: pa.Array) -> Float64Array:
    """Answers as numbers, NaN where they are null."""
    assert is_numeric(answers.type), "counts and sums are numbers"
    return np.asarray(answers.cast(pa.float64(), safe=False).fill_null(np.nan))


def _bounds(quantiles: Quantiles, confidence: float, contents: WindowContents) -> pa.Array:
    low, high = intervals_for_any_size(quantiles, contents, confidence)
    return pa.StructArray.from_arrays([low, high], names=["low", "high"])
