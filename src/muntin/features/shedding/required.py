"""How many tuples a required accuracy needs of every group of a pane (section VI of the paper).

The paper decides the rate of a window from its mean and variance. Here they are known exactly for every group of a
pane, before any tuple is shed. A group keeps as many tuples as needed for its own sum to be within the error. Where all
values have one sign, the sums of windows then are, too: errors of groups add up at most as fast as the sums themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import Float64Array, Int64Array
from muntin.features.shedding.known import Known
from muntin.features.shedding.scaled import Measure
from muntin.partials.rows import Rows
from muntin.statistics.bounded import draws_for_a_mean, draws_for_a_rank


@dataclass(frozen=True)
class Required:
    """The tuples that are needed for an accuracy."""

    error: float
    """The largest relative error of sums and means, and the largest error of ranks."""
    confidence: float
    totals: tuple[Measure, ...] = ()
    """What is summed or averaged."""
    ranked: tuple[Measure, ...] = ()
    """What has quantiles."""
    ranks: int = 1
    """The most quantiles of one aggregate."""
    panes: int = 1
    """The most panes of a window."""

    def of(self, rows: Rows) -> Int64Array:
        """How many tuples of each group are needed, as far as it has them."""
        received = np.bincount(rows.groups, minlength=rows.group_count).astype(np.float64)
        needed = np.zeros(rows.group_count)
        # A filter leaves it to chance how many drawn tuples count. Half of the doubt is for that.
        doubt = (1 - self.confidence) / 2
        with np.errstate(all="ignore"):
            for measure in self.totals:
                known = Known.of(rows, measure.where, measure.column)
                draws = draws_for_a_mean(
                    known.size, known.low, known.high, known.mean, known.squares, self.error, doubt
                )
                if known.low.min(initial=0) < 0 < known.high.max(initial=0):  # sums of both signs may cancel out
                    draws = known.size
                needed = np.maximum(needed, self._of_all(draws, known.size, received, doubt))
            for measure in self.ranked:
                inputs = () if measure.column is None else (measure.column,)
                (groups,) = rows.select(inputs, measure.where)
                size = np.bincount(groups, minlength=rows.group_count).astype(np.float64)
                draws = draws_for_a_rank(size, self.error, doubt / self.ranks)
                needed = np.maximum(needed, self._of_all(draws, size, received, doubt))
        # Of what cannot be known, such as infinite values, everything is kept.
        return np.where(np.isfinite(needed), np.minimum(np.ceil(needed), received), received).astype(np.int64)

    def _of_all(
        self, draws: Float64Array, counting: Float64Array, received: Float64Array, doubt: float
    ) -> Float64Array:
        """How many of all tuples to draw, so that `draws` of those that count are among them in every pane."""
        draws = np.minimum(draws, counting)
        share = counting / np.maximum(received, 1)
        tail = np.log(2 * self.panes / doubt) / 2  # Hoeffding
        root = (np.sqrt(tail) + np.sqrt(tail + 4 * share * draws)) / (2 * share)
        of_all = np.where(draws < counting, root**2, received)
        return np.where(counting == 0, 0.0, np.where(counting == received, draws, of_all))
