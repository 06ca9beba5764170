"""The user's request for workers, and the resolved worker model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal, get_args

from muntin.checks import flag, one_of, whole_number
from muntin.engine.features import Option
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.features.order import WORKERS
from muntin.windows import PaneWindow
from muntin.written import call

Model = Literal["keyed", "active", "agnostic"]
Wish = Literal["auto", "keyed", "active", "agnostic"]

MOST = (1 << 31) - 1
"""The largest number of workers, of windows in a batch, and of keys."""


@dataclass(frozen=True)
class Parallel(Option):
    """The validated arguments of `.parallel(...)`."""

    name = "parallel"
    order = WORKERS

    model: Wish
    workers: int | None
    """None: the number of the session's shuffle partitions."""
    batch: int | None
    """None: chosen automatically."""
    ordered: bool
    keys: int | None
    skewed: bool

    @classmethod
    def of(
        cls, model: Wish, workers: int | None, batch: int | None, ordered: bool, keys: int | None, skewed: bool
    ) -> Parallel:
        one_of(model, "model", dict.fromkeys(get_args(Wish), ""))
        workers, batch, keys = (
            None if value is None else whole_number(value, name, MOST, optional=True)
            for name, value in (("workers", workers), ("batch", batch), ("keys", keys))
        )
        if batch is not None and model not in ("auto", "active"):
            raise MuntinError(
                f"batch is {batch}, the number of consecutive windows that an active worker gets, and the model is "
                f"{model!r}; leave it out, or use model='active'."
            )
        flag(ordered, "ordered")
        flag(skewed, "skewed")
        return cls(model, workers, batch, ordered, keys, skewed)

    @property
    def written(self) -> str:
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "model"}
        return call(".parallel", self.model, **{name: value for name, value in given.items() if value})

    @property
    def not_by_zone(self) -> str | None:
        if self.model == "keyed":
            return None
        return "it spreads windows over workers, and every zone has windows of its own; model='keyed' spreads keys"

    def check(self, draft: Draft, complete: bool = False) -> None:
        from muntin.features.workers.choice import check

        check(self, draft.windows, approximate=any(option.name == "approximate" for option in draft.options))

    def resolved(self, plan: Plan, cores: Callable[[], int]) -> Workers:
        from muntin.features.workers.choice import choose

        return choose(
            self,
            plan.windows,
            keyed=bool(plan.keys),
            incremental=not plan.keeps_chunks,
            approximate=any(feature.name == "approximate" for feature in plan.features),
            cores=cores(),
        )


@dataclass(frozen=True)
class Workers(Option):
    """The worker model of a query."""

    name = "parallel"
    order = WORKERS

    model: Model = "keyed"
    count: int | None = None
    """The number of workers; None in a plan without a session."""
    batch: int = 1
    """Active: the number of consecutive windows that a worker gets in turn."""
    tasks: int = 1
    """Agnostic: the number of tasks for window jobs."""
    ordered: bool = False
    """Whether the results of a batch are sorted."""
    why: str = ""

    def partitions(self, streaming: bool, of_session: int) -> tuple[int, int] | None:
        if self.count is None:
            return None
        if not streaming:
            return self.count, self.count
        # The partitions of a stream are those of its state. In the agnostic model `count` limits the tasks, not the
        # emitters, of which there is one per shard.
        return of_session, of_session if self.model == "agnostic" else self.count

    def plan(self, draft: Draft) -> Draft:
        from muntin.features.workers.feature import with_workers

        return with_workers(draft, self)

    def explained(self, plan: Plan) -> list[str]:
        count = f"{self.count} worker{'s' * (self.count != 1)}"
        lines = [f"Workers: {self.model}, {count}; {self.why}."]
        if self.model == "active":
            whose = "Window i belongs to worker i mod n"
            if self.batch > 1:
                whose = f"Windows are dealt out {self.batch:,} consecutive ones at a time"
            lines.append(f"  {whose}; panes go only to the workers whose windows contain them.")
            if not all(isinstance(window, PaneWindow) for window in plan.windows):
                lines.append("  Tuples of sessions, and of windows in event-time order, go to all workers.")
        elif self.model == "agnostic":
            lines.append(
                f"  Closed windows become jobs, runs of consecutive windows with their chunks; up to "
                f"{self.tasks} tasks compute them, each as soon as a core is free."
            )
        if self.ordered:
            lines.append("  One task puts the results of a batch in window order.")
        return lines


KEYED = Workers()
"""The model without `.parallel(...)`."""
