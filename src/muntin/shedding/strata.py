"""Which tuples are kept: of all alike (uniform shedding), or of every group its share (concept-driven, CoD).

The *concept* of a window is how often each group occurs in it. The paper estimates it from a sample and scans the
window a second time to shed. Here the pane stage counts the groups of a pane before it looks at any value, so the
frequencies are exact and one pass does: what is dropped is dropped before it is lifted, packed or sent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import Array, BoolArray, Float64Array, Int64Array, positions_in_runs, run_starts, stable_order
from muntin.sampling.allocation import congress

LEAST = 2
"""Of a group no fewer are kept, if it has so many: from one tuple alone nobody can tell how far off it is."""

CHANCE_BITS = 24
"""Of the random number of a tuple: so it is sorted together with its group. Of equal ones, the first counts."""


@dataclass(frozen=True)
class Strata:
    """What stands behind the tuples that were kept, for each group of them: a stratum."""

    received: Float64Array
    """How many tuples there were: counted, or what is expected where each was kept by chance."""
    by_chance: float | None = None
    """The chance with which each tuple was kept, where tuples were drawn one by one and not by their groups."""

    def weights(self, groups: Int64Array) -> Float64Array:
        """How many tuples each kept one stands for, itself among them; `groups` says of which group each is."""
        kept = np.bincount(groups, minlength=len(self.received))
        return np.asarray((self.received / np.maximum(kept, 1))[groups])


def random_numbers(seed: int, *salt: int) -> np.random.Generator:
    """The same ones at every replay: they depend on the seed and on what tells these tuples from others."""
    return np.random.default_rng([each % (1 << 64) for each in (seed, *salt)])


def kept_by_chance(count: int, rate: float, random: np.random.Generator) -> BoolArray:
    """Uniform shedding: a coin for every tuple, whatever it holds (the paper's algorithm 1)."""
    return random.random(count) >= rate


def shares(received: Int64Array, pane: Array, rate: float) -> Int64Array:
    """How many tuples of every group of a pane are kept.

    The pane keeps its share of the tuples, divided among the groups by basic congress: in proportion, and small groups
    more than that. A group that gets all it has is kept whole. Where there are more groups than tuples to keep, each
    keeps its proportion; and however many there are, none goes empty.
    """
    pane = pane.astype(np.int64, copy=False)
    if len(pane) and not 0 <= int(pane.min()) <= int(pane.max()) < 4 * len(pane):  # far apart: number them
        _, pane = np.unique(pane, return_inverse=True)
    budget = np.ceil((1 - rate) * np.bincount(pane, weights=received)).astype(np.int64)
    divided = congress(received, pane, budget)
    divided = np.where(divided > 0, divided, np.rint((1 - rate) * received).astype(np.int64))
    return np.maximum(divided, np.minimum(received, LEAST))


def kept_by_concept(
    groups: Int64Array, received: Int64Array, share: Int64Array, random: np.random.Generator
) -> BoolArray:
    """Concept-driven shedding: a simple random sample of every group, as large as its share."""
    kept = (share >= received)[groups]  # whole groups: nothing to draw
    drawn = np.flatnonzero(~kept)
    if not len(drawn):
        return kept
    of = groups[drawn]
    chance = random.integers(0, 1 << CHANCE_BITS, len(drawn), dtype=np.uint32)
    # The tuples with the smallest numbers are the sample. Few can be among them: only those are put in order.
    # Of a group in which they turn out to be too few, all are.
    likely = (share + 2 * np.sqrt(share) + 2) / np.maximum(received, 1)
    below = np.minimum(likely * (1 << CHANCE_BITS), 1 << CHANCE_BITS).astype(np.uint32)
    candidates = np.flatnonzero(chance < below[of])
    few = np.bincount(of[candidates], minlength=len(received)) < np.where(share < received, share, 0)
    if few.any():
        candidates = np.flatnonzero((chance < below[of]) | few[of])
    # By group, and then by the number.
    order = candidates[stable_order(chance[candidates].astype(np.int64), of[candidates])]
    place = positions_in_runs(run_starts(of[order]), len(order))
    kept[drawn[order[place < share[of[order]]]]] = True
    return kept
