"""Integers in few bytes.

Codes, times, counts and ranks are mostly close together, sorted, or multiples of one number. So they are stored as
distances from the smallest, or between neighbours, in as few bytes as possible. Fewer bytes also compress faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from muntin.arrays import Array, Int64Array

Distances = Literal["never", "if narrower", "always"]
"""Whether to store the distances between neighbours instead of the integers."""
_NARROW = {1: np.uint8, 2: np.uint16, 4: np.uint32}
_BASE, _FIRST, _STEP = b"base", b"first", b"step"
_SOME = 64
"""If this many integers have no common divisor but one, the others are not examined."""


def shortened(column: Int64Array, distances: Distances, divided: bool = False) -> tuple[Array, dict[bytes, str]]:
    """The integers in few bytes, and the metadata to restore them; if `divided`, by their common divisor."""
    metadata: dict[bytes, str] = {}
    if not len(column):
        return column, metadata
    width, least = _width(column)
    if distances == "always" or (distances == "if narrower" and width > 1):
        differences = np.diff(column, prepend=column[:1])
        difference_width, least_difference = _width(differences)
        if distances == "always" or difference_width < width:
            metadata[_FIRST] = str(int(column[0]))
            column, width, least = differences, difference_width, least_difference
    if width == 8:
        return column, metadata
    column = column - least
    metadata[_BASE] = str(least)
    if divided and width > 1 and np.gcd.reduce(column[:_SOME]) != 1:
        step = int(np.gcd.reduce(column))
        if step > 1:
            column = column // step
            metadata[_STEP] = str(step)
            width, _ = _width(column)
    return column.astype(_NARROW[width]), metadata


def restored(column: Array, metadata: Mapping[bytes, bytes]) -> Int64Array:
    """The integers that were shortened."""
    column = column.astype(np.int64, copy=False)
    if _STEP in metadata:
        column = column * int(metadata[_STEP])
    if _BASE in metadata:
        column = column + int(metadata[_BASE])
    if _FIRST in metadata:
        column = np.cumsum(column) + int(metadata[_FIRST])
    return column


def is_shortened(metadata: Mapping[bytes, bytes]) -> bool:
    return any(key in metadata for key in (_BASE, _FIRST, _STEP))


def _width(column: Int64Array) -> tuple[int, int]:
    """The bytes per integer when stored as distances from the least, and the least."""
    least, most = int(column.min()), int(column.max())
    return next((width for width in _NARROW if most - least < 1 << 8 * width), 8), least
