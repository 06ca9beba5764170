"""The base class of holistic aggregates: functions of all tuples of a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.holistic.contents import WindowContents


@dataclass(frozen=True)
class HolisticFunction(ABC):
    """A holistic aggregate. It answers many windows at once and shares work between overlapping ones."""

    column: str
    where: str | None
    """The boolean column of the filter, or None if all tuples count."""

    takes_weights: ClassVar[bool] = False
    """Whether it can answer from weighted tuples, which represent shed ones."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its values; a tuple with a null in one of them does not count."""
        return (self.column,)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns if self.where is None else (*self.columns, self.where)

    @abstractmethod
    def compute(self, contents: WindowContents) -> pa.Array:
        """One answer per window."""


def spread(values: pa.Array, windows: Int64Array, count: int) -> pa.Array:
    """An array over `count` windows: the values at `windows`, null elsewhere."""
    if len(windows) == count:
        return values
    positions = np.full(count, -1)
    positions[windows] = np.arange(len(windows))
    return values.take(pa.array(positions, mask=positions < 0))


def lists(offsets: Int64Array, items: pa.Array) -> pa.Array:
    """Lists of items: list i is `[offsets[i], offsets[i + 1])`."""
    if len(items) >= 1 << 31:
        raise OverflowError(f"{len(items):,} values in the lists of one batch are more than an Arrow list can hold")
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items)
