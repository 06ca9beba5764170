"""The active worker model: windows are dealt to workers, and every pane goes to those whose windows contain it.

Window i belongs to worker i mod n; with batches of b consecutive windows, to worker ⌊i / b⌋ mod n. So each worker has
its own window model, with the private slide n·slide of the paper. To all other parts it is a query with these windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from muntin.arrays import BoolArray, Int64Array
from muntin.engine.operators.operator import WindowOperator
from muntin.engine.operators.time import TimeOperator
from muntin.panes.table import Layout, Leaves, PaneTable, arranged, compacted
from muntin.windows import PaneWindow, TimeWindow, Window
from muntin.windows.model import ForwardContext, Ids, Parameters


@dataclass(frozen=True)
class Deal:
    """The windows of one worker, those with ⌊id / batch⌋ mod workers = worker. Its own ids number only these."""

    worker: int
    workers: int
    batch: int

    def owns(self, ids: Int64Array) -> BoolArray:
        return np.asarray(ids // self.batch % self.workers == self.worker)

    def owns_session(self, starts: Int64Array) -> BoolArray:
        """Sessions have no number, so their start times decide. These are often round, so their bits are mixed."""
        mixed = (starts.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
        return np.asarray(mixed % np.uint64(self.workers) == self.worker)

    def shared(self, own_id: Ids) -> Ids:
        """The public id of a window, from the worker's own id."""
        return (own_id // self.batch * self.workers + self.worker) * self.batch + own_id % self.batch

    def from_(self, ids: Ids) -> Ids:
        """The first own id that is not before an id."""
        return self.until(ids - 1) + 1

    def until(self, ids: Ids) -> Ids:
        """The last own id that is not after an id."""
        block, within = ids // self.batch, ids % self.batch
        turn, owner = block // self.workers, block % self.workers
        # In its own block up to the id itself; after its block all of it, before its block none.
        is_own, is_after = owner == self.worker, owner > self.worker
        reached: Ids = within * is_own + (self.batch - 1) * is_after - (owner < self.worker)
        return turn * self.batch + reached


@dataclass(frozen=True, repr=False)
class DealtWindow(PaneWindow):
    """The windows of a model that belong to one worker, with their own ids."""

    window: PaneWindow
    deal: Deal
    forward_context: ClassVar[ForwardContext] = "free"
    extent_formula: ClassVar[str] = "E(w) of every n-th window"

    @classmethod
    def of(cls, window: PaneWindow, deal: Deal) -> DealtWindow:
        offset = window.offset
        if isinstance(window, TimeWindow) and deal.batch == 1:
            offset += deal.worker * window.slide
        return cls(window.name, offset, replace(window, name=None), deal)

    @property
    def label(self) -> str:
        return self.window.label

    @property
    def parameters(self) -> tuple[str, Parameters]:
        return self.window.parameters

    @property
    def lengths(self) -> tuple[int, ...]:
        """Private panes: without batches, the starts of a worker's windows are n slides apart."""
        if isinstance(self.window, TimeWindow) and self.deal.batch == 1:
            return self.window.size, self.window.slide * self.deal.workers
        return self.window.lengths

    @property
    def longest(self) -> int:
        return self.window.longest

    @property
    def copies(self) -> int:
        return self.window.copies

    def start(self, window_id: Ids) -> Ids:
        return self.window.start(self.deal.shared(window_id))

    def end(self, window_id: Ids) -> Ids:
        return self.window.end(self.deal.shared(window_id))

    def first_containing(self, times: Int64Array) -> Int64Array:
        return self.deal.from_(self.window.first_containing(times))

    def last_containing(self, times: Int64Array) -> Int64Array:
        return self.deal.until(self.window.last_containing(times))

    def last_ended(self, time: int) -> int:
        return self.deal.until(self.window.last_ended(time))

    def public_id(self, ids: Int64Array) -> Int64Array:
        return self.deal.shared(ids)


@dataclass(frozen=True)
class Dealing:
    """All windows of a query, and how they are dealt."""

    windows: tuple[Window, ...]
    workers: int
    batch: int

    def deal(self, worker: int) -> Deal:
        return Deal(worker, self.workers, self.batch)

    @cached_property
    def _dealt(self) -> list[list[DealtWindow]]:
        panes = [window for window in self.windows if isinstance(window, PaneWindow)]
        return [[DealtWindow.of(window, self.deal(worker)) for window in panes] for worker in range(self.workers)]

    @cached_property
    def _numbers_tuples(self) -> bool:
        return not all(isinstance(window, PaneWindow) for window in self.windows)

    def of_panes(self, worker: int, times: Int64Array) -> BoolArray:
        """The mapping: whether a window of the worker contains the panes, or tuples, at these times."""
        mask = np.zeros(len(times), dtype=bool)
        for window in self._dealt[worker]:
            mask |= window.first_containing(times) <= window.last_containing(times)
        return mask

    def of_tuples(self, worker: int, times: Int64Array) -> BoolArray:
        """The same for tuples; if windows number tuples or form sessions, any worker may need any tuple."""
        return np.ones(len(times), dtype=bool) if self._numbers_tuples else self.of_panes(worker, times)

    def is_first(self, worker: int, times: Int64Array, tuples: bool) -> BoolArray:
        """Whether the worker is the first one with the panes or tuples at these times, so that each is counted once."""
        having = self.of_tuples if tuples else self.of_panes
        earlier = np.zeros(len(times), dtype=bool)
        for other in range(worker):
            earlier |= having(other, times)
        return having(worker, times) & ~earlier


@dataclass(frozen=True)
class Worker:
    """The worker that a plan is for."""

    number: int
    dealing: Dealing

    @property
    def deal(self) -> Deal:
        return self.dealing.deal(self.number)

    def counts(self, times: Int64Array, tuples: bool) -> BoolArray:
        """Which panes or tuples this worker counts."""
        return self.dealing.is_first(self.number, times, tuples)


def dealt_operators(operators: Sequence[WindowOperator], deal: Deal) -> tuple[WindowOperator, ...]:
    """The operators of one worker: with its own windows, or with its share of windows without numbers."""
    return tuple(
        replace(operator, windows=tuple((index, _dealt(window, deal)) for index, window in operator.windows))
        if isinstance(operator, TimeOperator)
        else replace(operator, share=deal)
        for operator in operators
    )


def _dealt(window: Window, deal: Deal) -> Window:
    return DealtWindow.of(window, deal) if isinstance(window, PaneWindow) else window


def deal_out(dealing: Dealing, layout: Layout, table: PaneTable) -> dict[int, PaneTable]:
    """The share of each worker in a table of the map stage: exactly the panes that its windows contain."""
    shares = {}
    for worker in range(dealing.workers):
        kept = [dealing.of_panes(worker, leaves.time) for leaves in table.leaves]
        tuples = None if table.tuples is None else dealing.of_tuples(worker, table.tuples.time)
        share = table.filter(kept, tuples)
        if share.size:
            shares[worker] = compacted(layout, share, slack=0)
    return shares


def in_private_panes(operator: TimeOperator, table: PaneTable) -> PaneTable:
    """The received table, with panes merged into the worker's private panes, the widest that divide its windows."""
    leaves = list(table.leaves)
    for index, leaf_set in enumerate(operator.leaf_sets, operator.first_set):
        if not leaf_set.per_tuple and len(leaves[index]):
            panes = leaves[index]
            leaves[index] = arranged(leaf_set, Leaves(panes.key, operator.grid.starts(panes.time), panes.state))
    return replace(table, leaves=tuple(leaves))
