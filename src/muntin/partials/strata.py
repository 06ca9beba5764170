"""How rows were drawn, where they are a sample of those that there were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import Float64Array, Int64Array


@dataclass(frozen=True)
class Strata:
    """What stands behind the tuples that were kept, for each group of them: a stratum."""

    received: Float64Array
    """How many tuples there were."""
    by_chance: float | None = None
    """The chance with which each tuple was kept, where tuples were drawn one by one and not by their groups."""

    def take(self, chosen: Int64Array) -> Strata:
        return Strata(self.received[chosen], self.by_chance)

    def weights(self, groups: Int64Array) -> Float64Array:
        """How many tuples each kept one stands for, itself among them; `groups` says of which group each is.

        Where tuples were kept whatever their group is, all stand for equally many: groups of which none was kept are
        among those.
        """
        if self.by_chance is not None:
            return np.full(len(groups), 1 / self.by_chance)
        kept = np.bincount(groups, minlength=len(self.received))
        return np.asarray((self.received / np.maximum(kept, 1))[groups])
