"""The selection of kept tuples: uniform, or by concept, where every group keeps its share (CoD).

The *concept* of a window is the frequencies of its groups. The paper estimates them from a sample and sheds in a second
scan of the window. Here the pane stage counts the groups of a pane before it reads any value. So frequencies are exact,
one pass is enough, and tuples are shed before they are lifted, packed or sent.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from muntin.arrays import Array, Float64Array, Int64Array, expand, run_starts
from muntin.features.shedding.policy import LEAST
from muntin.statistics.congress import congress

COARSE_BITS, FINE_BITS = 16, 8
"""The bits of a tuple's random number. The coarse bits decide for most tuples; only those near the edge need the fine
bits, and are sorted. Ties keep their order."""
DIGIT_BITS = 16


def random_numbers(seed: int, *salt: int) -> np.random.Generator:
    """Random numbers that are the same at every replay: they depend on the seed and on what identifies the tuples."""
    return np.random.default_rng([number % (1 << 64) for number in (seed, *salt)])


def kept_share(rate: float) -> Fraction:
    """The exact kept share: the rate is read as the decimal number that it is written as, so 1 - 0.98 is 0.02."""
    return 1 - Fraction(repr(float(rate)))


def kept_uniformly(count: int, keep: int, random: np.random.Generator) -> Int64Array:
    """Uniform shedding: the sorted positions of `keep` random tuples."""
    smaller = min(keep, count - keep)
    kept = np.full(count, smaller < keep)
    kept[random.choice(count, smaller, replace=False, shuffle=False)] = smaller == keep
    return np.flatnonzero(kept)


def shares(received: Int64Array, pane: Array, rate: float, fewest: int = LEAST) -> Int64Array:
    """The number of tuples that every group of a pane keeps.

    The pane keeps its share of the tuples, divided among the groups by basic congress: in proportion to their sizes,
    with more for small groups. Every group keeps at least half of its proportion, the guarantee of congress, even if
    there are almost as many groups as tuples to keep. With more groups than tuples to keep, each keeps its proportion.
    No group keeps less than `fewest`, if it has as many.
    """
    pane = pane.astype(np.int64, copy=False)
    if len(pane) and not 0 <= int(pane.min()) <= int(pane.max()) < 4 * len(pane):  # sparse: renumber
        _, pane = np.unique(pane, return_inverse=True)
    share = kept_share(rate)
    pane_sizes = np.bincount(pane, weights=received).astype(np.int64)
    divided = congress(received, pane, _parts(pane_sizes, share, share.denominator - 1))  # rounded up
    half, proportion = (_parts(received, part, part.denominator // 2) for part in (share / 2, share))
    least = np.where(divided > 0, half, proportion)
    return np.maximum(np.maximum(divided, least), np.minimum(received, fewest))


def _parts(counts: Int64Array, share: Fraction, more: int) -> Int64Array:
    """The share of each count, rounded down after adding `more` to the numerator. Floats would be off by a tuple."""
    largest = int(counts.max(initial=0)) * share.numerator + more
    numbers = counts if max(largest, share.denominator) < 1 << 63 else counts.astype(object)
    return np.asarray((numbers * share.numerator + more) // share.denominator).astype(np.int64)


def kept_by_concept(
    groups: Int64Array, received: Int64Array, share: Int64Array, random: np.random.Generator
) -> Int64Array:
    """Concept-driven shedding: the sorted positions of a simple random sample of every group, as large as its share.

    The sample of a group is its tuples with the smallest random numbers. The largest of these is usually close to its
    expected value: tuples well below it are in, tuples well above are out, and only those between are sorted. If the
    margin of a group is too narrow, all of its tuples are sorted.
    """
    chance = random.integers(0, 1 << COARSE_BITS, len(groups), dtype=np.uint16)
    is_complete = share >= received  # all tuples are kept
    margin = 2 * np.sqrt(share) + 2
    lowest = np.where(is_complete, 1 << COARSE_BITS, _edge(share - margin, received))  # below it, all are kept
    highest = np.where(is_complete, 1 << COARSE_BITS, _edge(share + margin, received))  # from it on, none is kept
    candidates = _below(chance, highest, groups)
    too_few = np.bincount(groups[candidates], minlength=len(share)) < np.minimum(share, received)
    if too_few.any():
        highest[too_few] = 1 << COARSE_BITS
        candidates = _below(chance, highest, groups)
    candidate_groups = groups[candidates]
    kept = chance[candidates] < lowest[candidate_groups]
    certain = np.bincount(candidate_groups[kept], minlength=len(share))
    too_many = certain > share
    if too_many.any():
        kept &= ~too_many[candidate_groups]
        certain[too_many] = 0
    undecided = np.flatnonzero(~kept)
    fine = random.integers(0, 1 << FINE_BITS, len(undecided), dtype=np.uint16)
    order = undecided[_by_group_and_number(candidate_groups[undecided], chance[candidates[undecided]], fine)]
    groups_in_order = candidate_groups[order]
    starts = run_starts(groups_in_order)
    missing = (share - certain)[groups_in_order[starts]]  # never more than are undecided
    first, _ = expand(starts, missing)
    kept[order[first]] = True
    return candidates[kept]


def _by_group_and_number(group: Int64Array, coarse: Array, fine: Array) -> Int64Array:
    """Radix sort with digits of 16 bits, which NumPy sorts by counting."""
    half = FINE_BITS  # of a digit: a random number has three halves
    order = np.argsort(coarse << half | fine, kind="stable")  # the overflow is in the next digit
    digit = (group << half).astype(np.uint16) | coarse >> half
    order = order[np.argsort(digit[order], kind="stable")]
    remaining = group >> half
    while remaining.any():
        order = order[np.argsort(remaining.astype(np.uint16)[order], kind="stable")]
        remaining = remaining >> DIGIT_BITS
    return order


def _edge(count: Float64Array, received: Int64Array) -> Int64Array:
    """The edge below which `count` random numbers of a group are expected."""
    expected = count / np.maximum(received, 1) * (1 << COARSE_BITS)
    return np.clip(expected, 0, 1 << COARSE_BITS).astype(np.int64)


def _below(chance: Array, edge: Int64Array, groups: Int64Array) -> Int64Array:
    """The tuples with a number below the edge of their group. An edge of 0 counts as 1, so that 16 bits are enough."""
    last = np.maximum(edge, 1) - 1
    return np.flatnonzero(chance <= last.astype(np.uint16)[groups])
