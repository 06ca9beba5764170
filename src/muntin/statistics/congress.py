"""How a budget is divided among the groups of a window: basic congress (Acharya, Gibbons and Poosala, 2000).

The *house* gives every group its share of the tuples, the *senate* gives all groups the same. Each group gets the
larger of the two, scaled down so that all of them fit the budget. What a small group does not need goes to the others.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Float64Array, Int64Array

_ROUNDS = 4
"""How often what is left over is divided again."""


def congress(sizes: Int64Array, window: Int64Array, budget: Int64Array | int) -> Int64Array:
    """The sample size of every group: `sizes` are theirs, and `window[i]` says which window group i is of.

    No group gets less than one, or more than it has. Where the groups of a window are more than the budget, none of
    them gets anything.
    """
    windows = int(window.max(initial=-1)) + 1
    limit = np.broadcast_to(np.asarray(budget, dtype=np.int64), (windows,))
    groups = np.bincount(window, minlength=windows)
    total = np.bincount(window, weights=sizes, minlength=windows)
    share = np.maximum(sizes / np.maximum(total, 1)[window], 1 / np.maximum(groups, 1)[window])
    given = np.minimum(sizes, 1)
    fits = groups <= limit
    for _ in range(_ROUNDS):
        left = limit - np.bincount(window, weights=given, minlength=windows)
        wanting: Float64Array = np.where((given < sizes) & fits[window], share, 0.0)
        shares = np.bincount(window, weights=wanting, minlength=windows)
        more = np.floor(left[window] * wanting / np.where(shares > 0, shares, 1.0)[window]).astype(np.int64)
        if not more.any():
            break
        given = np.minimum(sizes, given + more)
    return np.where(fits[window], given, 0)


def rounded_down(sizes: Int64Array) -> Int64Array:
    """To one of eight sizes per doubling: a group whose share moves a little keeps the size of its sample."""
    exponent = np.floor(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    step = np.maximum(1 << np.maximum(exponent - 3, 0), 1)
    return np.where(sizes < 1, 0, sizes // step * step)
