"""Shedding in one task of one batch, before anything is lifted."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np

from muntin.arrays import Array, Int64Array
from muntin.engine.features import KeptRows
from muntin.engine.map_stage import Panes
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.strata import kept_by_concept, kept_share, kept_uniformly, random_numbers, shares
from muntin.partials.strata import Strata


class Shedder:
    """Decides which tuples are kept, and counts the others."""

    def __init__(self, policy: Shedding, task: int = 0, rate: float | None = None) -> None:
        """`task` tells this task from the others of its batch: each has random numbers of its own.

        `rate` is the one in force, where it changes from batch to batch.
        """
        self._policy = policy
        self._task = task
        self._draws = 0
        self._received = 0
        self._kept = 0
        self._rounding: Fraction | None = None
        self.rate = (policy.rate or 0.0) if rate is None else rate
        self.shed_rows = 0

    @property
    def by_concept(self) -> bool:
        return not self._policy.is_uniform

    @property
    def sheds(self) -> bool:
        """Whether anything is shed at all."""
        return self.rate > 0

    def keep(self, times: Int64Array, panes: Panes) -> KeptRows:
        """The tuples that are kept of a batch. All groups are counted first, so that each is answered with its size."""
        received, groups = panes.pairs.counted(), panes.pairs.groups
        if self.by_concept:
            return KeptRows(*self.kept_by_concept(times, groups, received, panes.of_groups))
        return KeptRows(*self.kept_uniformly(times, received))

    def take_shed_rows(self) -> int:
        """How many were shed since somebody asked."""
        count, self.shed_rows = self.shed_rows, 0
        return count

    def kept_uniformly(self, times: Int64Array, received: Int64Array) -> tuple[Int64Array, Strata]:
        """Where the tuples are that are kept if all are treated alike, and what they stand for.

        `received` is how many tuples each group has.
        """
        random = self._random(times)
        kept = kept_uniformly(len(times), self._share(len(times), random), random)
        self.shed_rows += len(times) - len(kept)
        return kept, Strata(received.astype(np.float64), float(kept_share(self.rate)))

    def _share(self, count: int, random: np.random.Generator) -> int:
        """How many of so many more tuples are kept.

        All that the task has kept by then is what the rate says, but for a part of a tuple, which is rounded up or
        down: by chance, once for the task, so that every tuple is as likely to be kept as the rate says.
        """
        if self._rounding is None:
            self._rounding = Fraction(random.random())
        self._received += count
        before, self._kept = self._kept, floor(self._received * kept_share(self.rate) + self._rounding)
        return self._kept - before

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
