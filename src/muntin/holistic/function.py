"""What a holistic aggregate is: a function of all the tuples of a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.holistic.contents import Held


@dataclass(frozen=True)
class Whole(ABC):
    """Answers very many windows at once, sharing the work between those that overlap."""

    column: str
    where: str | None
    """The boolean column that says which tuples count, if not all of them."""

    of_weighted: ClassVar[bool] = False
    """Whether tuples may stand for others, which were shed."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What its values are of; a tuple in which one is null does not count."""
        return (self.column,)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns if self.where is None else (*self.columns, self.where)

    @abstractmethod
    def compute(self, held: Held) -> pa.Array:
        """One answer per window."""


def spread(values: pa.Array, windows: Int64Array, count: int) -> pa.Array:
    """The values at their windows, and null at the others."""
    if len(windows) == count:
        return values
    where = np.full(count, -1)
    where[windows] = np.arange(len(windows))
    return values.take(pa.array(where, mask=where < 0))


def lists(offsets: Int64Array, items: pa.Array) -> pa.Array:
    """List i holds the items `[offsets[i], offsets[i + 1])`."""
    if len(items) >= 1 << 31:
        raise OverflowError(f"{len(items):,} values in the lists of one batch are more than an Arrow list can hold")
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items)
