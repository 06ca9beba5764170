"""What a user says about workers, and what the query will do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from muntin.errors import MuntinError

Model = Literal["keyed", "active", "agnostic"]
Wish = Literal["auto", "keyed", "active", "agnostic"]


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
        if model not in get_args(Wish):
            raise MuntinError(f"model is {model!r}; it can be 'auto', 'keyed', 'active' or 'agnostic'.")
        for name, value in (("workers", workers), ("batch", batch), ("keys", keys)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise MuntinError(f"{name} must be a whole number from 1, or None, got {value!r}.")
        if batch is not None and model not in ("auto", "active"):
            raise MuntinError(
                f"batch is {batch}, the number of consecutive windows that an active worker gets, and the model is "
                f"{model!r}; leave it out, or use model='active'."
            )
        for name, flag in (("ordered", ordered), ("skewed", skewed)):
            if not isinstance(flag, bool):
                raise MuntinError(f"{name} must be True or False, got {flag!r}.")
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
