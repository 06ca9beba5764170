"""The division of a budget among the groups of a window: basic congress (Acharya, Gibbons and Poosala, 2000).

The *house* gives every group its share of the tuples, the *senate* gives all groups the same. Each group gets the
larger of the two, scaled down so that all of them fit the budget. What a small group does not need goes to the others.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Float64Array, Int64Array

_ROUNDS = 4
"""The most rounds in which unused budget is divided again."""


def congress(sizes: Int64Array, window: Int64Array, budget: Int64Array | int) -> Int64Array:
    """The sample size of every group: group i has `sizes[i]` tuples and belongs to `window[i]`.

    Every group gets at least one tuple and at most all it has. If a window has more groups than its budget has tuples,
    its groups get nothing.
    """
    windows = int(window.max(initial=-1)) + 1
    limit = np.broadcast_to(np.asarray(budget, dtype=np.int64), (windows,))
    groups = np.bincount(window, minlength=windows)
    total = np.bincount(window, weights=sizes, minlength=windows)
    share = np.maximum(sizes / np.maximum(total, 1)[window], 1 / np.maximum(groups, 1)[window])
    allotted = np.minimum(sizes, 1)
    fits = groups <= limit
    for _ in range(_ROUNDS):
        unused = limit - np.bincount(window, weights=allotted, minlength=windows)
        open_shares: Float64Array = np.where((allotted < sizes) & fits[window], share, 0.0)
        totals = np.bincount(window, weights=open_shares, minlength=windows)
        added = np.floor(unused[window] * open_shares / np.where(totals > 0, totals, 1.0)[window]).astype(np.int64)
        if not added.any():
            break
        allotted = np.minimum(sizes, allotted + added)
    return np.where(fits[window], allotted, 0)


def rounded_down(sizes: Int64Array) -> Int64Array:
    """Sizes rounded down to one of eight per doubling: if a group's share changes little, its sample size does not."""
    exponent = np.floor(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    step = np.maximum(1 << np.maximum(exponent - 3, 0), 1)
    return np.where(sizes < 1, 0, sizes // step * step)
