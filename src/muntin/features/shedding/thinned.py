"""The second stage of shedding, for window functions: each window is cut to its share.

The pane stage keeps some tuples of every group in every pane, without knowing the other panes. So a window contains
more than its share of a group that is rare in each pane, the more the shorter panes are. When the window closes, its
concept is known, and the tuples for the function are cut to it.

Tuples are selected at equal distances along their cumulative weights, from a random start (systematic sampling with
probabilities proportional to size: Cochran, chapter 9A). So all selected tuples have the same weight, and a function
that ignores weights sees the distribution of the whole window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array, Int64Array, UInt64Array, expand
from muntin.engine.operators.operator import Answers
from muntin.features.shedding.strata import shares
from muntin.holistic.contents import WindowContents
from muntin.panes.keys import hashes, mix
from muntin.panes.tuples import WEIGHT

MORE = 1.5
"""Windows below this multiple of their share are not cut: copying tuples would cost more."""


Chances: TypeAlias = Callable[[Int64Array], Float64Array]
"""Numbers from 0 to below 1 for some windows of keys."""


@dataclass(frozen=True)
class WindowShares:
    """Cuts the tuples of each window and key to its share."""

    seed: int
    rate: float

    def __call__(
        self, contents: WindowContents, answers: Answers, known_keys: pa.RecordBatch
    ) -> tuple[Int64Array, WindowContents] | None:
        """The windows with more than their share, and their new contents; None if there are none."""

        def chances(windows: Int64Array) -> Float64Array:
            keys_of_windows = known_keys.take(pa.array(answers.key[windows]))
            columns = [keys_of_windows.column(name) for name in keys_of_windows.schema.names if name]
            return chances_of(self.seed, hashes(columns, len(windows)), answers.window[windows])

        return thinned(contents, answers.window, chances, self.rate)


def thinned(
    contents: WindowContents, window: Int64Array, chances: Chances, rate: float
) -> tuple[Int64Array, WindowContents] | None:
    """The windows and keys with more than their share, and their new contents; None if there are none.

    `window` numbers the windows, and `chances` gives the random start in each.
    """
    weight_before = np.append(0.0, np.cumsum(np.asarray(contents.tuples.columns.column(WEIGHT))))
    received = weight_before[contents.end] - weight_before[contents.begin]
    share = shares(np.rint(received).astype(np.int64), window, rate)
    cut = np.flatnonzero(contents.end - contents.begin > MORE * share)
    if not len(cut):
        return None
    begin, end = contents.begin[cut], contents.end[cut]
    turn, cut_index = expand(np.zeros(len(cut), dtype=np.int64), share[cut])
    position = weight_before[begin][cut_index] + (turn + chances(cut)[cut_index]) * (received / share)[cut][cut_index]
    row = np.clip(np.searchsorted(weight_before, position, side="right") - 1, begin[cut_index], end[cut_index] - 1)
    is_first = np.append(
        True, (row[1:] != row[:-1]) | (cut_index[1:] != cut_index[:-1])
    )  # a tuple with more than one step of weight is selected once
    ends = np.cumsum(np.bincount(cut_index[is_first], minlength=len(cut)))
    return cut, WindowContents(contents.tuples.take(row[is_first]), np.append(0, ends[:-1]), ends)


def chances_of(seed: int, keys: UInt64Array, windows: Int64Array) -> Float64Array:
    """One random number per window and key, from the hash of the key: the same at every replay."""
    with np.errstate(over="ignore"):
        mixed = mix(keys ^ mix(windows.astype(np.uint64) + np.uint64(seed % (1 << 64))))
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)
