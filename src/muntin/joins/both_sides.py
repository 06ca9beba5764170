"""An inner join as a feature: only windows in which both sides have tuples are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates.decomposable import CountAggregate
from muntin.arrays import BoolArray
from muntin.engine.answers import Answered, AnswerLink, ClosedWindows
from muntin.engine.batch import ShardBatch
from muntin.engine.contents import ShardTuples
from muntin.engine.features import Knob, ShardFeature, Task
from muntin.engine.hidden import SIZE
from muntin.engine.plan import Draft, Plan
from muntin.features.order import JOIN
from muntin.joins.names import SIDE_FLAGS


@dataclass(frozen=True)
class BothSides(Knob):
    """Windows in which one of these hidden counts is 0 are not emitted."""

    counts: tuple[str, ...]
    name = "join"
    order = JOIN  # windows without a match are left out before any feature sees them
    written = ""

    def described(self) -> Mapping[str, Any]:
        return {"multiplied": True}

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return OnlyBothSides(self.matched)

    def on_job(self, plan: Plan) -> ShardFeature:
        return OnlyBothSides(self.matched)

    def matched(self, values: Mapping[str, pa.Array]) -> BoolArray:
        """The windows in which both sides have tuples."""
        return np.asarray(np.logical_and.reduce([np.asarray(values[name]) > 0 for name in self.counts]))


@dataclass(frozen=True)
class BothSidesOfPairs(BothSides):
    """The same where pairs are made. Nothing else counts the tuples of a side, so those of the left one are."""

    def plan(self, draft: Draft) -> Draft:
        (name,) = self.counts
        count = CountAggregate(None, None).bind({}, SIDE_FLAGS["left"], draft.types[draft.time])
        return draft.with_feature(self).with_hidden({name: count}, eager=True)

    def described(self) -> Mapping[str, Any]:
        return {}

    def matched(self, values: Mapping[str, pa.Array]) -> BoolArray:
        (name,) = self.counts
        left = np.asarray(values[name])
        return (left > 0) & (left < np.asarray(values[SIZE]))


class OnlyBothSides(ShardFeature):
    """The feature in one shard."""

    def __init__(self, matched: Callable[[Mapping[str, pa.Array]], BoolArray]) -> None:
        self._matched = matched

    def link(self, inner: AnswerLink, tuples: ShardTuples, batch: ShardBatch | None) -> AnswerLink:
        return Matched(inner, self._matched)


@dataclass(frozen=True)
class Matched:
    """The outermost link: drops windows without a match before anything is estimated for them."""

    inner: AnswerLink
    matched: Callable[[Mapping[str, pa.Array]], BoolArray]

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        present = self.matched(windows.values)
        if present.any():
            yield from self.inner.answer(windows.take(np.flatnonzero(present)))
