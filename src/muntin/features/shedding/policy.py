"""The knob of concept-driven shedding (CoD): the share b of tuples to shed, or what it follows from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from muntin.checks import flag, one_of
from muntin.durations import Duration, describe, positive_microseconds
from muntin.engine.features import KeptAtSource, Option
from muntin.engine.hidden import SIZE
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.features.order import SHEDDING
from muntin.written import call, defaults, unlike

Method = Literal["concept", "uniform"]
Place = Literal["panes", "source"]

LEAST = 2
"""The fewest tuples kept of a group in a pane, if it has as many: a single tuple gives no variance."""


@dataclass(frozen=True)
class Shedding(Option):
    """The validated arguments of `.shed(...)`."""

    name = "shed"
    order = SHEDDING

    rate: float | None
    """The share of tuples to shed; None if it is found from the latency or the error."""
    target_latency: int | None
    """The longest duration of a batch, in microseconds."""
    method: Method = "concept"
    seed: int = 0
    confidence: float = 0.95
    """The confidence of the intervals."""
    error: float | None = None
    """The largest error of an answer, from which the rate of each pane and group follows."""
    at: Place = "panes"
    """Where tuples are shed: in the pane stage, or by Spark before they are sent to Python."""
    incremental: bool = True
    """Whether aggregates that panes answer see all tuples, and only what needs the tuples themselves is shed."""
    least: int = LEAST
    """The fewest tuples kept of a group in a pane."""

    @property
    def written(self) -> str:
        latency = None if self.target_latency is None else describe(self.target_latency)
        given: dict[str, object] = {"rate": self.rate, "target_latency": latency, "error": self.error}
        given |= {"method": self.method, "at": self.at, "incremental": self.incremental, "least": self.least}
        given |= {"seed": self.seed, "confidence": self.confidence}
        return call(".shed", **unlike(given, {**defaults(Shedding), "rate": None, "target_latency": None}))

    @property
    def not_by_zone(self) -> str:
        return "it finds what to drop from all rows of a pane, and every zone has panes of its own"

    def check(self, draft: Draft, complete: bool = False) -> None:
        from muntin.features.shedding.plan import check, check_beside, required

        check(draft.windows, draft.aggregates, self.incremental and self.at == "panes")
        required(draft, self)
        if self.at == "source":
            check_beside(draft)

    def plan(self, draft: Draft) -> Draft:
        from muntin.features.drift.feature import with_drift
        from muntin.features.shedding.feature import LoadShedding
        from muntin.features.shedding.plan import hidden, required, sees_all, statistic

        self.check(draft)
        if self.at == "source":
            from muntin.features.shedding.source import SourceShedding

            draft = draft.with_feature(SourceShedding(self, draft.tells_rows_apart))
            return replace(draft, needs_size=True, eager=draft.eager | {SIZE})
        exact = frozenset(name for name, bound in draft.aggregates.items() if sees_all(bound, self.incremental))
        draft = draft.with_hidden(hidden(draft.aggregates, self)).with_feature(
            LoadShedding(self, exact, required(draft, self))
        )
        if not self.incremental:
            draft = replace(draft, statistic=statistic)
        return with_drift(replace(draft, eager=draft.eager | {SIZE}, weighs=True))

    def explained(self, plan: Plan) -> list[str]:
        from muntin.features.shedding.explained import explained

        return [explained(self, plan)]

    @property
    def kept(self) -> float:
        """The probability with which a tuple is kept, at a rate that is given."""
        return float(1 - Fraction(repr(self.rate or 0.0)))

    @property
    def at_source(self) -> KeptAtSource | None:
        return KeptAtSource(self.kept, self.seed) if self.at == "source" and self.kept < 1 else None

    @property
    def is_uniform(self) -> bool:
        """Whether tuples are kept uniformly, without regard to their group."""
        return self.method == "uniform"

    @classmethod
    def of(
        cls,
        rate: float | None,
        target_latency: Duration | None,
        method: str,
        seed: int,
        confidence: float,
        error: float | None = None,
        at: str = "panes",
        incremental: bool = True,
        least: int = LEAST,
    ) -> Shedding:
        """Validate the user's arguments."""
        _check_one_given(rate, target_latency, error)
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1):
            raise MuntinError(
                f"rate must be a number from 0 to below 1, such as 0.9 to drop nine of ten tuples, got {rate!r}."
            )
        if error is not None and (isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1):
            raise MuntinError(f"error must be a number between 0 and 1, such as 0.05 for five per cent, got {error!r}.")
        one_of(
            method,
            "method",
            {"concept": "which keeps some of every group,", "uniform": "which treats all tuples alike"},
        )
        one_of(
            at,
            "at",
            {
                "panes": "where groups are counted before tuples are shed,",
                "source": "where Spark sheds tuples before they are sent to Python",
            },
        )
        flag(incremental, "incremental")
        if isinstance(least, bool) or not isinstance(least, int) or least < 1:
            raise MuntinError(f"least must be a whole number from 1, such as 2, got {least!r}.")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise MuntinError(f"seed must be a whole number, got {seed!r}.")
        if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
            raise MuntinError(f"confidence must be a number between 0 and 1, such as 0.95, got {confidence!r}.")
        _check_together(method, at, rate, error, incremental, least)
        latency = None if target_latency is None else positive_microseconds(target_latency, "target_latency")
        return cls(
            None if rate is None else float(rate),
            latency,
            "uniform" if method == "uniform" else "concept",
            seed,
            float(confidence),
            None if error is None else float(error),
            "source" if at == "source" else "panes",
            incremental,
            least,
        )


def _check_one_given(rate: object, target_latency: object, error: object) -> None:
    given = [
        name
        for name, value in (("rate", rate), ("target_latency", target_latency), ("error", error))
        if value is not None
    ]
    if len(given) > 1:
        raise MuntinError(
            f"shed() got both {given[0]} and {given[1]}; give the rate, or the latency or the error from which Muntin "
            "finds it."
        )
    if not given:
        raise MuntinError(
            "shed() needs a rate such as rate=0.9, the share of tuples to drop, or target_latency='2 seconds' or "
            "error=0.05, from which Muntin finds it."
        )


def _check_together(
    method: str, at: str, rate: float | None, error: float | None, incremental: bool, least: int
) -> None:
    """Raise an error for arguments that do not fit together."""
    if at == "source":
        if method != "uniform":
            raise MuntinError(
                "at='source' sheds before groups are known, so it treats all tuples alike; add method='uniform', or "
                "shed at='panes' to keep some of every group."
            )
        if rate is None:
            raise MuntinError(
                "at='source' needs a rate, because Spark's plan is fixed while a stream runs; give rate=0.9, or use "
                "at='panes' with target_latency or error."
            )
        if not incremental:
            raise MuntinError(
                "incremental=False is for at='panes', where panes could answer from all tuples; with at='source', "
                "nothing sees all tuples anyway. Leave it out."
            )
    if method == "uniform" and least != LEAST:
        raise MuntinError(
            "least is for method='concept', which keeps some of every group; leave it out with 'uniform'."
        )
    if method == "uniform" and error is not None:
        raise MuntinError(
            "error needs method='concept', which decides for every group and pane how much is kept; leave "
            "method='uniform' out."
        )
