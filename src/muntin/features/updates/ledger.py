"""The ledger of a shard: what was last emitted of every window and key that may still change.

Each entry has the revision and the digest of the last row. Entries are written in parts, one per batch, sorted by
window and key. A part that is not much smaller than the one before is merged with it, so that there are few parts, and
a batch costs as much as it emits. Entries are dropped when their window can no longer change.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Int64Array, State, all_true, is_sorted, run_numbers, run_starts
from muntin.engine.operators.partials import Registers
from muntin.engine.plan import Plan
from muntin.engine.state import StateValues
from muntin.panes import packed
from muntin.panes.table import Layout, LeafSet, Leaves, PaneTable, merged_keys
from muntin.windows import PaneWindow

REVISION, DIGEST, START, END, KEPT = FIELDS = range(5)
"""The fields of an entry. Windows whose bounds do not follow from their id have the last three: the bounds, and until
when the entry is kept. That is the latest end that the window has had, so that no entry outlives those behind it."""
MERGED = 2
"""A part is merged with the next one unless it has more than this many times its entries."""
UNUSED_KEYS = 1 << 10
"""Fewer unused keys than this are not dropped."""


@dataclass(frozen=True)
class Part:
    """The entries of one value of the state, model by model, sorted by window and key."""

    name: str
    size: int
    ends: int
    """When the last of its windows can no longer change."""
    entries: tuple[Entries, ...]

    @property
    def count(self) -> int:
        return sum(map(len, self.entries))


@dataclass(frozen=True)
class Entries:
    """Entries of one window model. The time of a leaf is the id of the window."""

    leaves: Leaves

    def __len__(self) -> int:
        return len(self.leaves)

    def find(self, window: Int64Array, key: Int64Array) -> tuple[Int64Array, BoolArray]:
        """The position of each window and key, and whether it is there."""
        if not len(self):
            return np.zeros(len(window), dtype=np.int64), np.zeros(len(window), dtype=bool)
        rank = np.minimum(np.searchsorted(self._windows, window), len(self._windows) - 1)
        known = (self._windows[rank] == window) & (key < self._keys)
        position = np.minimum(np.searchsorted(self._composite, rank * self._keys + key), len(self) - 1)
        known &= (self.leaves.key[position] == key) & (self.leaves.time[position] == window)
        return position, known

    @cached_property
    def _starts(self) -> Int64Array:
        return run_starts(self.leaves.time)

    @cached_property
    def _windows(self) -> Int64Array:
        return self.leaves.time[self._starts]

    @cached_property
    def _keys(self) -> int:
        return int(self.leaves.key.max()) + 1

    @cached_property
    def _composite(self) -> Int64Array:
        return run_numbers(self._starts, len(self)) * self._keys + self.leaves.key


@dataclass(frozen=True)
class Ledger:
    """The entries of a shard, in the worker's memory. It is never changed: every batch makes another one."""

    keys: pa.RecordBatch
    """The keys by their codes in all parts."""
    parts: tuple[Part, ...] = ()

    def with_keys(self, layout: Layout, keys: pa.RecordBatch) -> tuple[Ledger, Int64Array]:
        """The ledger with more keys, and the codes of these in it. The codes of others stay as they are."""
        if self.keys is keys:
            return self, np.arange(keys.num_rows)
        if not self.parts:
            return Ledger(keys), np.arange(keys.num_rows)
        union, (own, others) = merged_keys(layout, [PaneTable(self.keys, (), {}), PaneTable(keys, (), {})])
        codes = np.full(union.num_rows, -1, dtype=np.int64)
        codes[own] = np.arange(len(own))
        new = np.flatnonzero(codes[others] < 0)
        codes[others[new]] = len(own) + np.arange(len(new))
        if not len(new):
            return self, codes[others]
        added = pa.Table.from_batches([self.keys, keys.take(pa.array(new))], layout.keys).combine_chunks()
        return replace(self, keys=added.to_batches()[0]), codes[others]

    def last(self, model: int, window: Int64Array, key: Int64Array) -> State:
        """The last entry of each window and key; the revision is -1 if there is none."""
        fields = len(self.parts[0].entries[model].leaves.state) if self.parts else len(FIELDS)
        state = tuple(np.full(len(window), -(field == REVISION), dtype=np.int64) for field in range(fields))
        missing = np.arange(len(window))
        for part in reversed(self.parts):
            entries = part.entries[model]
            position, known = entries.find(window[missing], key[missing])
            for column, entry in zip(state, entries.leaves.state, strict=True):
                column[missing[known]] = entry[position[known]]
            missing = missing[~known]
            if not len(missing):
                break
        return state

    def of_keys(self, model: int, is_key: BoolArray) -> Leaves:
        """The last entries of all windows of some keys, which are marked by their codes."""
        parts = [part.entries[model].leaves for part in self.parts]
        return in_order([part.take(is_key[part.key]) for part in parts]).leaves


class LedgerStore:
    """The ledger in the state."""

    def __init__(self, plan: Plan, values: StateValues) -> None:
        self._models = plan.windows
        self._values = values
        self._layout = Layout(plan.layout.keys, tuple(LeafSet((_registers(window),)) for window in plan.windows))

    @property
    def layout(self) -> Layout:
        return self._layout

    def read(self, written: Sequence[Sequence[Any]]) -> Ledger:
        """The ledger of a worker that does not have it in memory."""
        ledger = Ledger(self._no_keys())
        for name, size, ends in written:
            table = self._values.read(name, size, partial(packed.unpack, self._layout))
            ledger, codes = ledger.with_keys(self._layout, table.keys)
            entries = tuple(in_order([replace(leaves, key=codes[leaves.key])]) for leaves in table.leaves)
            ledger = replace(ledger, parts=(*ledger.parts, Part(name, size, ends, entries)))
        return ledger

    def described(self, ledger: Ledger) -> list[list[Any]]:
        """What `read` needs, as JSON."""
        return [[part.name, part.size, part.ends] for part in ledger.parts]

    def with_entries(self, ledger: Ledger, added: Sequence[Sequence[Leaves]], now: Sequence[int]) -> Ledger:
        """The ledger with the entries of a batch, and without windows that are final at `now`, all by model."""
        parts = []
        for part in ledger.parts:
            if part.ends <= min(now):
                self._values.delete(part.name, part.size)
            else:
                parts.append(part)
        entries = self._open([in_order(leaves) for leaves in added], now)
        if not any(map(len, entries)):
            return replace(ledger, parts=tuple(parts)) if parts else Ledger(self._no_keys())
        while parts and parts[-1].count <= MERGED * sum(map(len, entries)):
            last = parts.pop()
            self._values.delete(last.name, last.size)
            still_open = self._open(last.entries, now)
            entries = [_merged(*both) for both in zip(still_open, entries, strict=True)]
        keys = ledger.keys
        if not parts:
            keys, entries = _without_unused(keys, entries)
        return Ledger(keys, (*parts, self._write(keys, entries)))

    def ends(self, model: int, leaves: Leaves) -> Int64Array:
        """Until when entries are kept."""
        window = self._models[model]
        return window.end(leaves.time) if isinstance(window, PaneWindow) else leaves.state[KEPT]

    def _open(self, entries: Sequence[Entries], now: Sequence[int]) -> list[Entries]:
        kept = []
        for model, of_model in enumerate(entries):
            is_open = self.ends(model, of_model.leaves) > now[model]
            kept.append(of_model if is_open.all() else Entries(of_model.leaves.take(is_open)))
        return kept

    def _write(self, keys: pa.RecordBatch, entries: Sequence[Entries]) -> Part:
        own_keys, own = _own_keys(keys, entries)
        value = packed.pack(PaneTable(own_keys, tuple(part.leaves for part in own), {}))
        name = f"ledger-{uuid.uuid4().hex}"
        self._values.write(name, value)
        ends = [self.ends(model, part.leaves).max() for model, part in enumerate(entries) if len(part)]
        return Part(name, len(value), int(max(ends)), tuple(entries))

    def _no_keys(self) -> pa.RecordBatch:
        schema = self._layout.keys
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _registers(window: object) -> Registers:
    fields = (REVISION, DIGEST) if isinstance(window, PaneWindow) else FIELDS
    return Registers(None, ("int64",) * len(fields))


def in_order(parts: Sequence[Leaves]) -> Entries:
    """Entries by window and key; of several for the same, the last one counts."""
    if not parts:
        return Entries(Leaves(_NOTHING, _NOTHING, (_NOTHING,) * len(FIELDS)))
    state = tuple(np.concatenate(columns) for columns in zip(*(part.state for part in parts), strict=True))
    key, time = (np.concatenate([getattr(part, name) for part in parts]) for name in ("key", "time"))
    leaves = Leaves(key, time, state)
    # The rows of a batch are in window order.
    in_runs = is_sorted(time)
    rank = run_numbers(run_starts(time), len(time)) if in_runs else np.unique(time, return_inverse=True)[1]
    composite = rank * (int(key.max(initial=0)) + 1) + key
    if len(leaves) and not all_true(composite[1:] > composite[:-1]):
        order = np.argsort(composite, kind="stable")
        ordered = composite[order]
        leaves = leaves.take(order[np.append(ordered[1:] != ordered[:-1], True)])
    return Entries(leaves)


_NOTHING = np.zeros(0, dtype=np.int64)


def _merged(older: Entries, newer: Entries) -> Entries:
    if not len(older) or not len(newer):
        return newer if len(newer) else older
    replaced = newer.find(older.leaves.time, older.leaves.key)[1]
    return newer if all_true(replaced) else in_order([older.leaves.take(~replaced), newer.leaves])


def _own_keys(keys: pa.RecordBatch, entries: Sequence[Entries]) -> tuple[pa.RecordBatch, list[Entries]]:
    """Only the keys that have entries, and the entries with their codes."""
    used = np.zeros(keys.num_rows, dtype=bool)
    for part in entries:
        used[part.leaves.key] = True
    if used.all():
        return keys, list(entries)
    codes = np.cumsum(used) - 1
    own = [Entries(replace(part.leaves, key=codes[part.leaves.key])) for part in entries]
    return keys.filter(pa.array(used)), own


def _without_unused(keys: pa.RecordBatch, entries: Sequence[Entries]) -> tuple[pa.RecordBatch, list[Entries]]:
    own_keys, own = _own_keys(keys, entries)
    if keys.num_rows > 2 * own_keys.num_rows + UNUSED_KEYS:
        return own_keys, own
    return keys, list(entries)
