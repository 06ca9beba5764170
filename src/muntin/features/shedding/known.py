"""What is known of every group of a pane before any of its tuples is shed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.arrays import Float64Array
from muntin.partials import values
from muntin.partials.groups import sums
from muntin.partials.rows import Rows


class Known(NamedTuple):
    """Of the tuples of each group that count; of a group without any, all are 0."""

    size: Float64Array
    """How many there are."""
    low: Float64Array
    high: Float64Array
    mean: Float64Array
    squares: Float64Array
    """The sum of the squared distances from the mean."""

    @classmethod
    def of(cls, rows: Rows, where: str | None, column: str | None) -> Known:
        groups, numbers = rows.select(() if column is None else (column,), where, numbers_of(rows, column))
        count = rows.group_count
        size = np.bincount(groups, minlength=count).astype(np.float64)
        low, high = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(low, groups, numbers)
        np.maximum.at(high, groups, numbers)
        low, high = np.where(size > 0, low, 0.0), np.where(size > 0, high, 0.0)
        # Measured from the least value, so that equal values have no distance from their mean.
        distance = numbers - low[groups]
        shift = sums(groups, distance, count) / np.maximum(size, 1)
        squares = sums(groups, (distance - shift[groups]) ** 2, count)
        return cls(size, low, high, low + shift, squares)


def numbers_of(rows: Rows, column: str | None) -> Float64Array:
    """The values of a column; 0 where they are not numbers, and are only counted."""
    if column is None or not values.is_numeric(rows.array(column).type):
        return np.zeros(len(rows.groups))
    return rows.numbers(column)
