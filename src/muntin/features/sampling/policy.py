"""The knobs of SPEAr: the budget b, the allowed error ε and the confidence α."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from sys import float_info
from typing import Any

from muntin.checks import flag
from muntin.engine.features import Option
from muntin.engine.hidden import SIZE
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.features.order import SAMPLING
from muntin.features.sampling import combined, error_metric
from muntin.features.sampling.combined import Combination
from muntin.sizes import describe_size, size_in_bytes
from muntin.windows.model import forgetting
from muntin.written import call, defaults, unlike

AUTO = "auto"


@dataclass(frozen=True)
class Approximation(Option):
    """The validated arguments of `.approximate(...)`."""

    name = "approximate"
    order = SAMPLING

    budget: int | None
    """The most tuples in a window's sample, per shard; None if the budget is given in bytes or found online."""
    budget_bytes: int | None
    error: float
    confidence: float
    groups: tuple[Any, ...] | None = None
    """The keys, if known beforehand: then the budget is divided among them from the start."""
    combine: Combination = "l1"
    """How the errors of a window's groups are combined: their mean, as in the paper, or otherwise."""
    incremental: bool = True
    """Whether decomposable aggregates are answered exactly, from their partials, and never from samples."""
    seed: int = 0
    metric: error_metric.Given = None
    """The user's error metric, for all aggregates or by aggregate; None for the errors of the estimators."""

    @classmethod
    def of(
        cls,
        budget: int | str,
        error: float,
        confidence: float,
        groups: Sequence[Any] | None,
        combine: object,
        incremental: bool,
        seed: int,
        metric: object = None,
    ) -> Approximation:
        """Validate the user's arguments."""
        errors = error_metric.checked(metric)
        if errors is None:
            _check_share("error", error, "0.1 for ten per cent")
        else:
            _check_limit(error)
        _check_share("confidence", confidence, "0.95")
        flag(incremental, "incremental")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise MuntinError(f"seed must be a whole number, got {seed!r}.")
        tuples, size = _budget(budget)
        known = None
        if groups is not None:
            known = tuple(groups) if isinstance(groups, Sequence) and not isinstance(groups, str | bytes) else None
            if not known:
                raise MuntinError(f"groups must be a list of all keys, such as ['a', 'b'], got {groups!r}.")
            if tuples is not None and tuples < len(known):
                raise MuntinError(
                    f"budget is {tuples}, fewer than the {len(known)} groups that share it; give each at least one."
                )
        combination = combined.checked(combine)
        return cls(tuples, size, error, confidence, known, combination, incremental, seed, errors)

    @property
    def is_auto(self) -> bool:
        return self.budget is None and self.budget_bytes is None

    @property
    def written(self) -> str:
        size = AUTO if self.budget_bytes is None else describe_size(self.budget_bytes)
        given: dict[str, object] = {"error": self.error, "confidence": self.confidence, "groups": self.groups}
        given |= {"combine": self.combine, "incremental": self.incremental, "seed": self.seed, "metric": self.metric}
        budget = size if self.budget is None else self.budget
        usual = {**defaults(Approximation), "confidence": 0.95}
        return call(".approximate", budget=budget, **unlike(given, usual))

    def check(self, draft: Draft, complete: bool = False) -> None:
        if draft.function is not None:
            raise MuntinError(
                "approximate() needs an estimator, and a function of windows has none: nothing is known of the error "
                "of its rows. Use .agg() with aggregates, or with A.custom(..., estimate=...), whose estimate you "
                "write yourself; or .shed(rate=...), which calls the function with a part of the rows."
            )
        forgetful = next((window for window in draft.windows if forgetting(window) is not None), None)
        if forgetful is not None:
            raise MuntinError(
                f"forget_after lets the numbers of a key's rows begin anew in {forgetful.title}, and the samples of "
                "approximate() go by these numbers; leave out one of the two."
            )
        if draft.aggregates:
            planned = draft.planned()
            if complete:
                from muntin.features.sampling.feature import Sampling

                next(f for f in planned.features if isinstance(f, Sampling)).plan.check_complete()

    def plan(self, draft: Draft) -> Draft:
        from muntin.features.sampling.feature import Sampling
        from muntin.features.sampling.plan import make, statistics

        sampling = make(self, draft)
        hidden = {
            name: draft.statistic(statistic, bound)
            for name, ((_, statistic), bound) in statistics(sampling.estimators).items()
        }
        draft = draft.with_hidden(hidden, eager=draft.weighs)
        columns = None
        if sampling.specs:
            columns = tuple(column for estimator in sampling.estimators.values() for column in estimator.inputs)
        eager = draft.eager | {SIZE} if draft.weighs else draft.eager
        return replace(
            draft.with_feature(Sampling(sampling)),
            needs_size=True,
            kept_columns=columns,
            writes_through=bool(sampling.specs),
            eager=eager,
        )

    def explained(self, plan: Plan) -> list[str]:
        from muntin.features.sampling.explained import explained

        return explained(self, plan)


def _check_share(name: str, value: object, such_as: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise MuntinError(f"{name} must be a number between 0 and 1, such as {such_as}, got {value!r}.")


def _check_limit(error: object) -> None:
    """An error by the user's metric has any unit."""
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error <= float_info.max:
        raise MuntinError(f"error must be a positive number, the most that metric may return, got {error!r}.")


def _budget(budget: object) -> tuple[int | None, int | None]:
    if isinstance(budget, str):
        return (None, None) if budget.strip().lower() == AUTO else (None, size_in_bytes(budget, "budget"))
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise MuntinError(
            f"budget must be a number of tuples such as 1000, a size such as '1 MB', or 'auto', got {budget!r}."
        )
    if budget >= 1 << 63:
        raise MuntinError(
            f"budget is {budget!r}, more tuples than can be counted; give less, or leave approximate() out."
        )
    if budget < 1:
        raise MuntinError(f"budget must be at least one tuple, got {budget!r}.")
    return budget, None
