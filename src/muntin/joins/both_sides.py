"""An inner join as a feature: only windows in which both sides have tuples are answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.aggregates.decomposable import CountAggregate
from muntin.engine.answers import Answered, AnswerLink, ClosedWindows
from muntin.engine.batch import ShardBatch
from muntin.engine.contents import ShardTuples
from muntin.engine.features import Knob, ShardFeature, Task
from muntin.engine.plan import Draft, Plan
from muntin.features.order import JOIN
from muntin.joins.names import SIDE_FLAGS


@dataclass(frozen=True)
class BothSides(Knob):
    """Windows in which one of these hidden counts is 0 are not emitted."""

    counts: tuple[str, ...]
    of_pairs: bool = False
    """Whether pairs are made. Then nothing else counts the tuples of each side, and these counts are added."""
    name = "join"
    order = JOIN  # windows without a match are left out before any feature sees them
    written = ""

    def plan(self, draft: Draft) -> Draft:
        draft = draft.with_feature(self)
        if not self.of_pairs:
            return draft
        of_sides = zip(self.counts, SIDE_FLAGS.values(), strict=True)
        time = draft.types[draft.time]
        counts = {name: CountAggregate(None, None).bind({}, flag, time) for name, flag in of_sides}
        return draft.with_hidden(counts, eager=True)

    def described(self) -> Mapping[str, Any]:
        return {} if self.of_pairs else {"multiplied": True}

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return OnlyBothSides(self.counts)

    def on_job(self, plan: Plan) -> ShardFeature:
        return OnlyBothSides(self.counts)


class OnlyBothSides(ShardFeature):
    """The feature in one shard."""

    def __init__(self, counts: tuple[str, ...]) -> None:
        self._counts = counts

    def link(self, inner: AnswerLink, tuples: ShardTuples, batch: ShardBatch | None) -> AnswerLink:
        return Matched(inner, self._counts)


@dataclass(frozen=True)
class Matched:
    """The outermost link: drops windows without a match before anything is estimated for them."""

    inner: AnswerLink
    counts: tuple[str, ...]

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        present = np.logical_and.reduce([np.asarray(windows.values[name]) > 0 for name in self.counts])
        if present.any():
            yield from self.inner.answer(windows.take(np.flatnonzero(present)))
