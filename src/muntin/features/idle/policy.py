"""`over(..., idle=)` and `.drain()`: windows that close although no row comes any more."""

from __future__ import annotations

from dataclasses import dataclass, replace

from muntin.durations import Duration, describe, positive_microseconds
from muntin.engine.features import Option
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.features.idle.feature import Idling
from muntin.features.order import IDLE

_SHORTEST, _LONGEST = 1_000_000, 15_000_000


@dataclass(frozen=True)
class Idle(Option):
    """The validated arguments of both."""

    name = "idle"
    order = IDLE

    after: int | None = None
    """How long the source has nothing to give before event time goes on with the clock, in microseconds."""
    drains: bool = False
    """Whether a bounded run that finds no new rows closes all windows."""

    @classmethod
    def of(cls, after: Duration) -> Idle:
        return cls(positive_microseconds(after, "idle"))

    def draining(self) -> Idle:
        """The same with `.drain()`."""
        return replace(self, drains=True)

    @property
    def written(self) -> str:
        """Only what is a call of its own: `idle=` is an argument of `over()`."""
        return ".drain()" if self.drains else ""

    @property
    def tick(self) -> int | None:
        """How often a stream without rows runs a batch, in microseconds: what closes late by at most that."""
        return None if self.after is None else min(max(self.after // 4, _SHORTEST), _LONGEST)

    @property
    def not_by_zone(self) -> str:
        return "the state of every zone has a watermark of its own, and only rows move it"

    def check(self, draft: Draft, complete: bool = False) -> None:
        if draft.marks is not None:
            what = "drain()" if self.after is None else "idle="
            raise MuntinError(
                f"{what} lets event time go on without rows, and watermark= is a column in which rows say how far it "
                "is; let the source send a row with nothing but a watermark, or give a delay as watermark=."
            )

    def plan(self, draft: Draft) -> Draft:
        """The draft with its feature; a table is never idle."""
        return draft.with_feature(Idling(self.after, self.drains, draft.delays)) if draft.streaming else draft

    def explained(self, plan: Plan) -> list[str]:
        if not plan.streaming:
            return []
        lines = []
        if self.after is not None and self.tick is not None:
            lines.append(
                f"Idle: when the source has had nothing for {describe(self.after)}, event time goes on with the clock. "
                f"A stream without rows runs a batch every {describe(self.tick)}."
            )
        if self.drains:
            lines.append("Drain: a bounded run (availableNow) that finds no new rows closes all windows.")
        return lines
