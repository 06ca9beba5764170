"""Panes that have changed and whose open windows wait to be emitted, with `emit("on_change", every=...)`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from muntin.engine.layout import ROW_COUNT
from muntin.engine.plan import Plan
from muntin.engine.state import StateValues
from muntin.panes import packed
from muntin.panes.grid import last_ends
from muntin.panes.table import Layout, LeafSet, Leaves, PaneTable, compacted, merge

MOST_VALUES = 8
"""More values than this are merged to one."""


class Pending:
    """The pending panes of a shard, in one batch. They are in the state, in a value per batch."""

    def __init__(
        self, plan: Plan, values: StateValues, written: Sequence[Sequence[Any]], cached: PaneTable | None
    ) -> None:
        """`cached` are the panes, if they are still in the worker's memory."""
        self._plan = plan
        self._values = values
        self._written = [(str(name), int(size)) for name, size in written]
        self._layout = Layout(plan.layout.keys, (LeafSet((ROW_COUNT,)),))
        self._before = cached if self._written else None
        self.panes: PaneTable | None = None
        """All pending panes, with those that have arrived."""

    @property
    def described(self) -> list[list[Any]]:
        """What the next batch needs, as JSON."""
        return [list(value) for value in self._written]

    def add(self, arrived: PaneTable | None) -> PaneTable | None:
        """Add what has arrived."""
        if self._before is None and self._written:
            read = partial(packed.unpack, self._layout)
            self._before = merge(self._layout, [self._values.read(*value, read) for value in self._written])
        new = None if arrived is None else self._of(arrived)
        tables = [table for table in (self._before, new) if table is not None]
        self.panes = merge(self._layout, tables) if tables else None
        return self.panes

    def keep(self, arrived: PaneTable | None, closed: int) -> None:
        """Write what has arrived, for a later batch. Panes without a window that is open after `closed` are dropped."""
        if arrived is not None and arrived.size:
            self._write(self._of(arrived))
        if len(self._written) > MOST_VALUES and self.panes is not None:
            over_time = self._plan.over_time
            assert over_time is not None
            still_open = last_ends(self.panes.panes.time, over_time.models) > closed
            panes = compacted(self._layout, self.panes.filter([still_open]), slack=0)
            self.clear()
            self.panes = panes
            if panes.size:
                self._write(panes)

    def clear(self) -> None:
        """Nothing is pending any more."""
        for name, size in self._written:
            self._values.delete(name, size)
        self._written, self.panes = [], None

    def _write(self, panes: PaneTable) -> None:
        name, value = f"pending-{uuid.uuid4().hex}", packed.pack(panes)
        self._values.write(name, value)
        self._written.append((name, len(value)))

    def _of(self, arrived: PaneTable) -> PaneTable:
        panes = arrived.panes
        return PaneTable(arrived.keys, (Leaves(panes.key, panes.time, panes.state[:1]),), {})
