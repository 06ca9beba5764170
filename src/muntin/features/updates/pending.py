"""Panes and keys that have changed and whose open windows wait to be emitted (`emit("on_change", every=...)`)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.engine.layout import ROW_COUNT
from muntin.engine.plan import Plan
from muntin.engine.state import StateValues
from muntin.features.updates.selection import Changed, recoded
from muntin.panes import packed
from muntin.panes.grid import last_ends
from muntin.panes.table import Layout, LeafSet, Leaves, PaneTable, compacted, merge

MOST_VALUES = 8
"""More values than this are merged to one."""


class Pending:
    """What is pending in a shard, in one batch. It is in the state, in a value per batch."""

    def __init__(
        self, plan: Plan, values: StateValues, written: Sequence[Sequence[Any]], cached: PaneTable | None
    ) -> None:
        """`cached` is what is pending, if it is still in the worker's memory."""
        self._plan = plan
        self._values = values
        self._written = [(str(name), int(size)) for name, size in written]
        self._layout = Layout(plan.layout.keys, (LeafSet((ROW_COUNT,)),) * 2)  # panes, and keys
        self._before = cached if self._written else None
        self._fresh: PaneTable | None = None
        self.table: PaneTable | None = None
        """All that is pending, with what has changed in this batch."""

    @property
    def described(self) -> list[list[Any]]:
        """What the next batch needs, as JSON."""
        return [list(value) for value in self._written]

    def add(self, changed: Changed, table: PaneTable) -> Changed:
        """What is pending, with what has changed in this batch, under the key codes of a table."""
        self._fresh = self._compacted(changed, table.keys)
        if not self._written:
            self.table = self._fresh
            return changed
        if self._before is None:
            read = partial(packed.unpack, self._layout)
            self._before = merge(self._layout, [self._values.read(*value, read) for value in self._written])
        self.table = merge(self._layout, [self._before, self._fresh])
        panes, keys = (recoded(self._plan, leaves, self.table, table) for leaves in self.table.leaves)
        return Changed(panes, keys.key)

    def keep(self, closed: int) -> None:
        """Write what has changed, for a later batch. Panes without an open window after `closed` are dropped."""
        if self._fresh is not None and self._fresh.size:
            self._write(self._fresh)
        if len(self._written) > MOST_VALUES and self.table is not None:
            panes, keys = self.table.leaves
            over_time = self._plan.over_time
            still_open = np.zeros(0, bool) if over_time is None else last_ends(panes.time, over_time.models) > closed
            table = compacted(self._layout, self.table.filter([still_open, np.ones(len(keys), bool)]), slack=0)
            self.clear()
            self.table = table
            if table.size:
                self._write(table)

    def clear(self) -> None:
        """Nothing is pending any more."""
        for name, size in self._written:
            self._values.delete(name, size)
        self._written, self.table = [], None

    def _write(self, table: PaneTable) -> None:
        name, value = f"pending-{uuid.uuid4().hex}", packed.pack(table)
        self._values.write(name, value)
        self._written.append((name, len(value)))

    def _compacted(self, changed: Changed, keys: pa.RecordBatch) -> PaneTable:
        zeros = np.zeros(len(changed.keys), dtype=np.int64)
        leaves = (changed.panes, Leaves(changed.keys, zeros, (zeros,)))
        return compacted(self._layout, PaneTable(keys, leaves, {}), slack=0)
