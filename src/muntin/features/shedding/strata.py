"""Which tuples are kept: of all alike (uniform shedding), or of every group its share (concept-driven, CoD).

The *concept* of a window is how often each group occurs in it. The paper estimates it from a sample and scans the
window a second time to shed. Here the pane stage counts the groups of a pane before it looks at any value, so the
frequencies are exact and one pass does: what is dropped is dropped before it is lifted, packed or sent.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from muntin.arrays import Array, Float64Array, Int64Array, expand, run_starts
from muntin.statistics.congress import congress

LEAST = 2
"""Of a group no fewer are kept, if it has so many: from one tuple alone nobody can tell how far off it is."""

COARSE_BITS, FINE_BITS = 16, 8
"""Of the random number of a tuple. The coarse ones tell of most tuples whether they are kept; only those near the edge
need the others, and are put in order. Of equal ones, the first counts."""
DIGIT_BITS = 16


def random_numbers(seed: int, *salt: int) -> np.random.Generator:
    """The same ones at every replay: they depend on the seed and on what tells these tuples from others."""
    return np.random.default_rng([each % (1 << 64) for each in (seed, *salt)])


def kept_share(rate: float) -> Fraction:
    """The share that is kept, exactly: the rate is the decimal number that it is written as, and 1 - 0.98 is 0.02."""
    return 1 - Fraction(repr(float(rate)))


def kept_uniformly(count: int, keep: int, random: np.random.Generator) -> Int64Array:
    """Uniform shedding: of all tuples, whatever they hold, so many are kept. Where they are, in order."""
    fewer = min(keep, count - keep)
    drawn = np.full(count, fewer < keep)
    drawn[random.choice(count, fewer, replace=False, shuffle=False)] = fewer == keep
    return np.flatnonzero(drawn)


def shares(received: Int64Array, pane: Array, rate: float) -> Int64Array:
    """How many tuples of every group of a pane are kept.

    The pane keeps its share of the tuples, divided among the groups by basic congress: in proportion, and small groups
    more than that. A group that gets all it has is kept whole. However small groups are, the others keep at least half
    of their proportion, which is what congress promises; where groups are about as many as the tuples to keep, one for
    each would not leave that much. Where there are more groups than tuples to keep, each keeps its proportion; and
    however many there are, none goes empty.
    """
    pane = pane.astype(np.int64, copy=False)
    if len(pane) and not 0 <= int(pane.min()) <= int(pane.max()) < 4 * len(pane):  # far apart: number them
        _, pane = np.unique(pane, return_inverse=True)
    share = kept_share(rate)
    of_pane = np.bincount(pane, weights=received).astype(np.int64)
    divided = congress(received, pane, _parts(of_pane, share, share.denominator - 1))  # rounded up
    half, proportion = (_parts(received, part, part.denominator // 2) for part in (share / 2, share))
    least = np.where(divided > 0, half, proportion)
    return np.maximum(np.maximum(divided, least), np.minimum(received, LEAST))


def _parts(counts: Int64Array, share: Fraction, more: int) -> Int64Array:
    """The share of each count, with `more` of its denominator before it is rounded down. Floats are off by a tuple."""
    largest = int(counts.max(initial=0)) * share.numerator + more
    numbers = counts if max(largest, share.denominator) < 1 << 63 else counts.astype(object)
    return np.asarray((numbers * share.numerator + more) // share.denominator).astype(np.int64)


def kept_by_concept(
    groups: Int64Array, received: Int64Array, share: Int64Array, random: np.random.Generator
) -> Int64Array:
    """Concept-driven shedding: a simple random sample of every group, as large as its share. Where they are, in order.

    The sample of a group are the tuples with the smallest random numbers. Most often its edge is where the share
    would have it, give or take a little: what is below that is in, what is above is out, and only what is left between
    is put in order. A group in which it turns out otherwise is put in order as a whole.
    """
    chance = random.integers(0, 1 << COARSE_BITS, len(groups), dtype=np.uint16)
    whole = share >= received  # nothing to draw
    give = 2 * np.sqrt(share) + 2
    lowest = np.where(whole, 1 << COARSE_BITS, _edge(share - give, received))  # below it, all are in
    highest = np.where(whole, 1 << COARSE_BITS, _edge(share + give, received))  # from it on, none is
    candidates = _below(chance, highest, groups)
    too_few = np.bincount(groups[candidates], minlength=len(share)) < np.minimum(share, received)
    if too_few.any():
        highest[too_few] = 1 << COARSE_BITS
        candidates = _below(chance, highest, groups)
    of = groups[candidates]
    kept = chance[candidates] < lowest[of]
    sure = np.bincount(of[kept], minlength=len(share))
    too_many = sure > share
    if too_many.any():
        kept &= ~too_many[of]
        sure[too_many] = 0
    between = np.flatnonzero(~kept)
    fine = random.integers(0, 1 << FINE_BITS, len(between), dtype=np.uint16)
    order = between[_by_group_and_number(of[between], chance[candidates[between]], fine)]
    in_order = of[order]
    starts = run_starts(in_order)
    wanted = (share - sure)[in_order[starts]]  # no more than there are
    first, _ = expand(starts, wanted)
    kept[order[first]] = True
    return candidates[kept]


def _by_group_and_number(group: Int64Array, coarse: Array, fine: Array) -> Int64Array:
    """From the last digit to the first, of 16 bits each: those NumPy sorts by counting."""
    half = FINE_BITS  # of a digit: the random number has three of them
    order = np.argsort(coarse << half | fine, kind="stable")  # what does not fit is in the next digit
    digit = (group << half).astype(np.uint16) | coarse >> half
    order = order[np.argsort(digit[order], kind="stable")]
    rest = group >> half
    while rest.any():
        order = order[np.argsort(rest.astype(np.uint16)[order], kind="stable")]
        rest = rest >> DIGIT_BITS
    return order


def _edge(count: Float64Array, received: Int64Array) -> Int64Array:
    """Below which so many random numbers of a group are expected."""
    expected = count / np.maximum(received, 1) * (1 << COARSE_BITS)
    return np.clip(expected, 0, 1 << COARSE_BITS).astype(np.int64)


def _below(chance: Array, edge: Int64Array, groups: Int64Array) -> Int64Array:
    """Which tuples have a number below the edge of their group, an edge of 0 taken for 1: so that 16 bits hold it."""
    last = np.maximum(edge, 1) - 1
    return np.flatnonzero(chance <= last.astype(np.uint16)[groups])
