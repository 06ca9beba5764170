"""What a user says about workers, and what the query will do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from muntin.checks import flag, one_of, whole_number
from muntin.errors import MuntinError

Model = Literal["keyed", "active", "agnostic"]
Wish = Literal["auto", "keyed", "active", "agnostic"]

MOST = (1 << 31) - 1
"""Of workers, windows of a batch, and keys."""


@dataclass(frozen=True)
class Parallel:
    """`.parallel(...)`, checked."""

    model: Wish
    workers: int | None
    """None: as many as the session has shuffle partitions."""
    batch: int | None
    """None: chosen by itself."""
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


@dataclass(frozen=True)
class Workers:
    """How a query is spread."""

    model: Model = "keyed"
    count: int | None = None
    """How many workers, where that is known: a plan that is only looked at knows no session."""
    batch: int = 1
    """Active: how many consecutive windows a worker gets before it is the next one's turn."""
    tasks: int = 1
    """Agnostic: how many tasks the window jobs are spread over."""
    ordered: bool = False
    """Whether the results of a batch are put in one order."""
    why: str = ""


KEYED = Workers()
"""What there is without `.parallel(...)`."""
