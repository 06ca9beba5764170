"""All values of a window in time order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import expand
from muntin.holistic.contents import WindowContents
from muntin.holistic.function import HolisticFunction, lists


@dataclass(frozen=True)
class Collected(HolisticFunction):
    def compute(self, contents: WindowContents) -> pa.Array:
        selected = contents.selected(self.column, self.where)
        positions, _ = expand(selected.begin, selected.sizes)
        return lists(np.append(0, np.cumsum(selected.sizes)), selected.column.take(pa.array(positions)))
