"""The second half of shedding, for functions of windows: each window gives no more than its share.

The pane stage keeps some of every group in every pane, since it knows nothing of the other panes. So of a group that
is rare in each of them, a window holds more than its share: the more, the shorter panes are. When it closes, its
concept is known, and what a function gets is cut to that.

Tuples are taken at equal distances along what all of them stand for, from a point drawn by chance on (systematic
sampling with probabilities proportional to size: Cochran, chapter 9A). So those that are taken stand for equally many,
and a function that knows nothing of weights sees the window as it was.
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
"""Windows with less than so many times their share stay as they are: tuples are not copied for so little."""


Chances: TypeAlias = Callable[[Int64Array], Float64Array]
"""Numbers from 0 to below 1 for some windows of keys."""


@dataclass(frozen=True)
class WindowShares:
    """Cuts what windows of keys get of their tuples to their share."""

    seed: int
    rate: float

    def __call__(
        self, held: WindowContents, answers: Answers, known_keys: pa.RecordBatch
    ) -> tuple[Int64Array, WindowContents] | None:
        """Which windows hold more than their share, and what they get; None if there are none."""

        def chances(chosen: Int64Array) -> Float64Array:
            keys_of_windows = known_keys.take(pa.array(answers.key[chosen]))
            columns = [keys_of_windows.column(name) for name in keys_of_windows.schema.names if name]
            return chances_of(self.seed, hashes(columns, len(chosen)), answers.window[chosen])

        return thinned(held, answers.window, chances, self.rate)


def thinned(
    held: WindowContents, window: Int64Array, chances: Chances, rate: float
) -> tuple[Int64Array, WindowContents] | None:
    """The windows of keys that hold more than their share, and what is left of them; None if there are none.

    `window` says which are of one window, `chances` where to begin in each.
    """
    until = np.append(0.0, np.cumsum(np.asarray(held.tuples.columns.column(WEIGHT))))
    received = until[held.end] - until[held.begin]
    share = shares(np.rint(received).astype(np.int64), window, rate)
    cut = np.flatnonzero(held.end - held.begin > MORE * share)
    if not len(cut):
        return None
    begin, end = held.begin[cut], held.end[cut]
    number, of = expand(np.zeros(len(cut), dtype=np.int64), share[cut])
    at = until[begin][of] + (number + chances(cut)[of]) * (received / share)[cut][of]
    place = np.clip(np.searchsorted(until, at, side="right") - 1, begin[of], end[of] - 1)
    once = np.append(True, (place[1:] != place[:-1]) | (of[1:] != of[:-1]))  # of one that stands for more than that
    behind = np.cumsum(np.bincount(of[once], minlength=len(cut)))
    return cut, WindowContents(held.tuples.take(place[once]), np.append(0, behind[:-1]), behind)


def chances_of(seed: int, keys: UInt64Array, windows: Int64Array) -> Float64Array:
    """One for each window of a key, by the key's hash: the same at every replay."""
    with np.errstate(over="ignore"):
        mixed = mix(keys ^ mix(windows.astype(np.uint64) + np.uint64(seed % (1 << 64))))
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)
