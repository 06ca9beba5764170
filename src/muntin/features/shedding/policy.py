"""The knob of concept-driven shedding (CoD): the share b of tuples to shed, or the latency from which it is found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from muntin.checks import one_of
from muntin.durations import Duration, describe, positive_microseconds
from muntin.engine.features import Option
from muntin.engine.hidden import SIZE
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.features.order import SHEDDING
from muntin.written import call, defaults, unlike

Method = Literal["concept", "uniform"]


@dataclass(frozen=True)
class Shedding(Option):
    """The validated arguments of `.shed(...)`."""

    name = "shed"
    order = SHEDDING

    rate: float | None
    """The share of tuples to shed; None if it is found from the latency."""
    target_latency: int | None
    """The longest duration of a batch, in microseconds."""
    method: Method = "concept"
    seed: int = 0
    confidence: float = 0.95
    """The confidence of the intervals."""

    @property
    def written(self) -> str:
        latency = None if self.target_latency is None else describe(self.target_latency)
        given: dict[str, object] = {"rate": self.rate, "target_latency": latency}
        given |= {"method": self.method, "seed": self.seed, "confidence": self.confidence}
        return call(".shed", **unlike(given, {**defaults(Shedding), "rate": None, "target_latency": None}))

    def check(self, draft: Draft, complete: bool = False) -> None:
        from muntin.features.shedding.plan import check

        check(draft.windows, draft.aggregates)

    def plan(self, draft: Draft) -> Draft:
        from muntin.features.drift.feature import with_drift
        from muntin.features.shedding.feature import LoadShedding
        from muntin.features.shedding.plan import hidden, lazy, statistic

        self.check(draft)
        added = hidden(draft.aggregates, self.is_uniform)
        lazy_names = lazy(draft.aggregates)
        eager = {name: bound for name, bound in added.items() if name not in lazy_names}
        draft = draft.with_hidden(added)
        feature = LoadShedding(self)
        return with_drift(
            replace(
                draft.with_feature(feature),
                eager=draft.eager | {SIZE, *eager},
                weighs=True,
                statistic=statistic,
            )
        )

    def explained(self, plan: Plan) -> list[str]:
        from muntin.features.shedding.explained import explained

        return [explained(self, plan)]

    @property
    def is_uniform(self) -> bool:
        """Whether tuples are kept uniformly, without regard to their group."""
        return self.method == "uniform"

    @classmethod
    def of(
        cls, rate: float | None, target_latency: Duration | None, method: str, seed: int, confidence: float
    ) -> Shedding:
        """Validate the user's arguments."""
        if rate is not None and target_latency is not None:
            raise MuntinError(
                "shed() got both rate and target_latency; give the rate, or the latency from which Muntin finds it."
            )
        if rate is None and target_latency is None:
            raise MuntinError(
                "shed() needs a rate such as rate=0.9, the share of tuples to drop, or target_latency='2 seconds', "
                "from which Muntin finds it."
            )
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1):
            raise MuntinError(
                f"rate must be a number from 0 to below 1, such as 0.9 to drop nine of ten tuples, got {rate!r}."
            )
        one_of(
            method,
            "method",
            {"concept": "which keeps some of every group,", "uniform": "which treats all tuples alike"},
        )
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise MuntinError(f"seed must be a whole number, got {seed!r}.")
        if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
            raise MuntinError(f"confidence must be a number between 0 and 1, such as 0.95, got {confidence!r}.")
        latency = None if target_latency is None else positive_microseconds(target_latency, "target_latency")
        checked_method: Method = "uniform" if method == "uniform" else "concept"
        return cls(None if rate is None else float(rate), latency, checked_method, seed, float(confidence))
