"""Shedding in one task of one batch, before tuples are lifted."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, Int64Array
from muntin.engine.features import KeptRows
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.required import Required
from muntin.features.shedding.strata import kept_by_concept, kept_share, kept_uniformly, random_numbers, shares
from muntin.panes.pairs import Panes
from muntin.partials.rows import Rows
from muntin.partials.strata import Strata


class Shedder:
    """Selects the tuples that are kept, and counts the others."""

    def __init__(
        self, policy: Shedding, task: int = 0, rate: float | None = None, required: Required | None = None
    ) -> None:
        """`task` is the number of the task in its batch; each task has random numbers of its own.

        `rate` is the rate of this batch if it varies. With `required`, it follows from an error instead.
        """
        self._policy = policy
        self._task = task
        self._draws = 0
        self._received = 0
        self._kept = 0
        self._rounding: Fraction | None = None
        self._required = required
        self.rate = (policy.rate or 0.0) if rate is None else rate
        self.shed_rows = 0

    @property
    def by_concept(self) -> bool:
        return not self._policy.is_uniform

    @property
    def sheds(self) -> bool:
        """Whether any tuple may be shed."""
        return self.rate > 0 or self._required is not None

    @property
    def shed_share(self) -> float:
        """The rate; the share that was shed, if the rate follows from an error."""
        if self._required is None:
            return self.rate
        return 1 - self._kept / self._received if self._received else 0.0

    def keep(self, batch: pa.RecordBatch, times: Int64Array, panes: Panes) -> KeptRows:
        """The kept tuples of a batch. All groups are counted first, so that the answers know their sizes."""
        received, groups = panes.pairs.counted(), panes.pairs.groups
        if self._required is not None:
            needed = self._required.of(Rows(batch, times, groups, panes.pairs.count))
            share = np.maximum(needed, np.minimum(received, self._policy.least))
            chosen = self._drawn(times, groups, received, share)
        elif self.by_concept:
            chosen = self.kept_by_concept(times, groups, received, panes.of_groups)
        else:
            chosen = self.kept_uniformly(times, received)
        return KeptRows(*chosen, for_panes=not self._policy.incremental)

    def take_shed_rows(self) -> int:
        """The number of rows shed since the last call."""
        count, self.shed_rows = self.shed_rows, 0
        return count

    def kept_uniformly(self, times: Int64Array, received: Int64Array) -> tuple[Int64Array, Strata]:
        """The positions of uniformly kept tuples, and their strata; `received` has the size of each group."""
        random = self._random(times)
        kept = kept_uniformly(len(times), self._share(len(times), random), random)
        self.shed_rows += len(times) - len(kept)
        return kept, Strata(received.astype(np.float64), float(kept_share(self.rate)))

    def _share(self, count: int, random: np.random.Generator) -> int:
        """How many of the next `count` tuples are kept.

        In total, the task keeps the share that follows from the rate. The fraction of a tuple is rounded up or down
        at random, once per task, so that every tuple is kept with the same probability.
        """
        if self._rounding is None:
            self._rounding = Fraction(random.random())
        self._received += count
        before, self._kept = self._kept, floor(self._received * kept_share(self.rate) + self._rounding)
        return self._kept - before

    def kept_by_concept(
        self, times: Int64Array, groups: Int64Array, received: Int64Array, pane: Array
    ) -> tuple[Int64Array, Strata]:
        """The positions of the tuples kept of every group, and their strata.

        For each group, `received` has its size and `pane` its pane.
        """
        present = np.flatnonzero(received)
        share = np.zeros(len(pane), dtype=np.int64)
        share[present] = shares(received[present], pane[present], self.rate, self._policy.least)
        return self._drawn(times, groups, received, share)

    def _drawn(
        self, times: Int64Array, groups: Int64Array, received: Int64Array, share: Int64Array
    ) -> tuple[Int64Array, Strata]:
        """As many tuples of every group as its share."""
        kept = kept_by_concept(groups, received, share, self._random(times))
        self.shed_rows += len(groups) - len(kept)
        if self._required is not None:
            self._received, self._kept = self._received + len(groups), self._kept + len(kept)
        return kept, Strata(received.astype(np.float64))

    def _random(self, times: Int64Array) -> np.random.Generator:
        self._draws += 1
        with np.errstate(over="ignore"):
            return random_numbers(self._policy.seed, self._task, self._draws, len(times), int(times.sum()))
