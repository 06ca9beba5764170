"""Shedding in one task of one batch, before anything is lifted."""

from __future__ import annotations

import numpy as np

from muntin.arrays import Array, BoolArray, Int64Array
from muntin.shedding.policy import Shedding
from muntin.shedding.strata import Strata, kept_by_chance, kept_by_concept, random_numbers, shares


class Shedder:
    """Decides which tuples are kept, and counts the others."""

    def __init__(self, policy: Shedding, task: int = 0, rate: float | None = None) -> None:
        """`task` tells this task from the others of its batch: each has random numbers of its own.

        `rate` is the one in force, where it changes from batch to batch.
        """
        self._policy = policy
        self._task = task
        self._draws = 0
        self.rate = (policy.rate or 0.0) if rate is None else rate
        self.shed_rows = 0

    @property
    def by_concept(self) -> bool:
        return not self._policy.by_chance

    def kept_by_chance(self, times: Int64Array) -> BoolArray | None:
        """Which tuples are kept if all are treated alike; None if all of them are."""
        if self.by_concept or not self.rate:
            return None
        kept = kept_by_chance(len(times), self.rate, self._random(times))
        self.shed_rows += len(kept) - int(kept.sum())
        return kept

    def strata_by_chance(self, groups: Int64Array, group_count: int) -> Strata | None:
        """What the tuples stand for that were kept by chance."""
        if self.by_concept or not self.rate:
            return None
        return Strata(np.bincount(groups, minlength=group_count) / (1 - self.rate), 1 - self.rate)

    @property
    def sheds_by_concept(self) -> bool:
        return self.by_concept and self.rate > 0

    def kept_by_concept(
        self, times: Int64Array, groups: Int64Array, received: Int64Array, pane: Array
    ) -> tuple[Int64Array, Strata]:
        """Where the tuples are that are kept of every group, and what they stand for.

        Of each group, `received` is how many tuples it has, and `pane` is where it is.
        """
        present = np.flatnonzero(received)
        share = np.zeros(len(pane), dtype=np.int64)
        share[present] = shares(received[present], pane[present], self.rate)
        kept = kept_by_concept(groups, received, share, self._random(times))
        self.shed_rows += len(groups) - len(kept)
        return kept, Strata(received.astype(np.float64))

    def _random(self, times: Int64Array) -> np.random.Generator:
        self._draws += 1
        with np.errstate(over="ignore"):
            return random_numbers(self._policy.seed, self._task, self._draws, len(times), int(times.sum()))
