"""Random priorities that are the same at every replay.

The k tuples of a pane with the smallest priorities are a simple random sample of the pane (bottom-k sampling). The k
smallest of two such samples are a sample of both panes. So samples merge, in any order.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Int64Array, UInt64Array
from muntin.panes.keys import mix

_STEP = np.uint64(0x9E3779B97F4A7C15)


def priorities(key_hash: UInt64Array, number: Int64Array, seed: int, epoch: int) -> UInt64Array:
    """The priorities of tuples, identified by key, number within the key, and the epoch of the numbers."""
    salt = mix(np.array([seed % (1 << 64), epoch % (1 << 64)], dtype=np.uint64) + _STEP)
    with np.errstate(over="ignore"):
        stream = mix(key_hash * _STEP + salt[0]) + mix(salt[1:] * _STEP + salt[0])
        return mix(stream + number.view(np.uint64) * _STEP)


def value_priorities(value_hash: UInt64Array, key_hash: UInt64Array, salt: UInt64Array, seed: int) -> UInt64Array:
    """The priorities of values, for each key and salt others.

    Equal values have equal priorities, so a bottom-k sample is one of distinct values.
    """
    with np.errstate(over="ignore"):
        stream = mix(key_hash * _STEP + mix(np.array([seed % (1 << 64)], dtype=np.uint64) + _STEP)) + salt
        return mix(value_hash + mix(stream))


def epoch_salt(epoch: Int64Array, turn: int) -> UInt64Array:
    """The salt of each epoch in the samples of a turn."""
    with np.errstate(over="ignore"):
        return mix(epoch.view(np.uint64) * _STEP + np.uint64(turn))
