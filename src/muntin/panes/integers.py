"""Integers in few bytes.

Codes, times, counts and ranks are mostly close together, sorted, or multiples of something: so they are kept as their
distance from the least of them, or as the distances between neighbours, in as few bytes as that takes. It is also where
the time of compression goes: to the bytes that are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from muntin.arrays import Array, Int64Array

Distances = Literal["never", "if narrower", "always"]
"""Whether the distances between neighbours are kept instead of the integers."""
_NARROW = {1: np.uint8, 2: np.uint16, 4: np.uint32}
_BASE, _FIRST, _STEP = b"base", b"first", b"step"
_SOME = 64
"""Where so many of the integers have no common divisor but one, the others need no look."""


def shortened(column: Int64Array, distances: Distances, divided: bool = False) -> tuple[Array, dict[bytes, str]]:
    """The integers in few bytes, and what it takes to get them back; `divided` by what all of them are multiples of."""
    how: dict[bytes, str] = {}
    if not len(column):
        return column, how
    width, least = _width(column)
    if distances == "always" or (distances == "if narrower" and width > 1):
        apart = np.diff(column, prepend=column[:1])
        narrower, nearest = _width(apart)
        if distances == "always" or narrower < width:
            how[_FIRST] = str(int(column[0]))
            column, width, least = apart, narrower, nearest
    if width == 8:
        return column, how
    column = column - least
    how[_BASE] = str(least)
    if divided and width > 1 and np.gcd.reduce(column[:_SOME]) != 1:
        step = int(np.gcd.reduce(column))
        if step > 1:
            column = column // step
            how[_STEP] = str(step)
            width, _ = _width(column)
    return column.astype(_NARROW[width]), how


def restored(column: Array, how: Mapping[bytes, bytes]) -> Int64Array:
    """The integers as they were."""
    column = column.astype(np.int64, copy=False)
    if _STEP in how:
        column = column * int(how[_STEP])
    if _BASE in how:
        column = column + int(how[_BASE])
    if _FIRST in how:
        column = np.cumsum(column) + int(how[_FIRST])
    return column


def is_shortened(how: Mapping[bytes, bytes]) -> bool:
    return any(each in how for each in (_BASE, _FIRST, _STEP))


def _width(column: Int64Array) -> tuple[int, int]:
    """The bytes that each of some integers takes as its distance from the least, and the least."""
    least, most = int(column.min()), int(column.max())
    return next((width for width in _NARROW if most - least < 1 << 8 * width), 8), least
