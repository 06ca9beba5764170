"""The values themselves, in time order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import expand
from muntin.holistic.contents import Held
from muntin.holistic.function import Whole, lists


@dataclass(frozen=True)
class Collected(Whole):
    def compute(self, held: Held) -> pa.Array:
        chosen = held.chosen(self.column, self.where)
        at, _ = expand(chosen.begin, chosen.sizes)
        return lists(np.append(0, np.cumsum(chosen.sizes)), chosen.column.take(pa.array(at)))
