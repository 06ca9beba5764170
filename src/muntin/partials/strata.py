"""How rows were drawn, if they are a sample of the rows received."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import BoolArray, Float64Array, Int64Array


@dataclass(frozen=True)
class Strata:
    """The strata of which the kept tuples are samples: one per group."""

    received: Float64Array
    """The number of tuples received in each group."""
    probability: float | None = None
    """The probability with which each tuple was kept, if drawn uniformly, whatever its group; else None."""

    def take(self, groups: Int64Array) -> Strata:
        return Strata(self.received[groups], self.probability)

    def weights(self, groups: Int64Array) -> Float64Array:
        """How many tuples each kept one represents, including itself; `groups` are the groups of the kept tuples."""
        return np.asarray(self.of_groups(groups)[groups])

    def of_groups(self, groups: Int64Array) -> Float64Array:
        """The same for all groups.

        Tuples that were drawn uniformly all represent equally many, because they also represent the groups of which
        none was kept.
        """
        if self.probability is not None:
            return np.full(len(self.received), 1 / self.probability)
        return np.asarray(self.received / np.maximum(np.bincount(groups, minlength=len(self.received)), 1))

    def incomplete(self, groups: Int64Array) -> BoolArray:
        """Which groups lost tuples, or may have: tuples that were drawn uniformly never represent only themselves."""
        if self.probability is not None:
            return self.received > 0
        return np.bincount(groups, minlength=len(self.received)) < self.received
