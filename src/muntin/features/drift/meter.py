"""Concept drift (CoD, section II.C): how much the groups of a window differ from those of the window before.

A window's concept is the frequencies of its groups. *Overlap* is the share of groups that are in both windows among
those in either. *Distance* (Bray and Curtis) is the sum of all differences of frequencies over the sum of all
frequencies, between 0 and 1. Both are quotients of sums over groups. Each group is in one shard, so the counts of
shards add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Int64Array, UInt64Array, are_one, count_true, is_sorted, stable_order
from muntin.engine.operators.operator import Answers
from muntin.engine.plan import Plan
from muntin.panes import keys


@dataclass(frozen=True)
class LastWindow:
    """The last closed window of a model, with the groups of one shard."""

    window: int
    groups: UInt64Array
    """Hashes of the keys, with 64 bits, so collisions are very unlikely."""
    rows: Int64Array

    def rows_of(self, hashes: UInt64Array) -> Int64Array:
        """The number of rows of each key with these hashes; groups that are not among them are left out."""
        code = pc.index_in(pa.array(self.groups), value_set=pa.array(hashes))
        still_present = np.asarray(code.is_valid())
        rows = np.zeros(len(hashes), dtype=np.int64)
        rows[np.asarray(code.drop_null())] = self.rows[still_present]
        return rows


@dataclass
class DriftMeter:
    """Counts the drift of a shard over all pairs of consecutive windows that close with one batch.

    A window without groups of this shard counts as empty, because the shard cannot see the others. Counting starts with
    the first window that has groups; the windows before it are unknown.
    """

    plan: Plan
    last: dict[int, LastWindow] = field(default_factory=dict)
    """The last closed window of each model, updated by every batch."""
    common: int = 0
    """Groups that are in both windows of a pair."""
    union: int = 0
    """Groups that are in either."""
    apart: int = 0
    """The sum of the differences of groups, in rows."""
    total: int = 0
    """The number of rows of both windows."""

    @classmethod
    def since(cls, plan: Plan, last: Mapping[int, LastWindow] | None) -> DriftMeter:
        return cls(plan, dict(last or {}))

    def add(self, answers: Answers, rows: Int64Array, known_keys: pa.RecordBatch) -> None:
        """Add windows in order, each with all of its groups; `rows` are counts and `known_keys` the keys by code."""
        if not len(rows):
            return
        hashes = keys.hashes([known_keys.column(key) for key in self.plan.keys], known_keys.num_rows)
        window, code, model = answers.window, answers.key, answers.model
        if are_one(model):
            self._add(int(model[0]), window, code, rows, hashes)
            return
        for model_number in np.unique(model).tolist():
            is_model = model == model_number
            self._add(model_number, window[is_model], code[is_model], rows[is_model], hashes)

    def _add(self, model: int, window: Int64Array, code: Int64Array, rows: Int64Array, hashes: UInt64Array) -> None:
        before = self.last.get(model)
        first, last = int(window.min()), int(window.max())
        ends = window == last
        self.last[model] = LastWindow(last, hashes[code[ends]], rows[ends])
        gone_groups, gone_rows = 0, 0
        if before is not None:
            rows_of_keys = before.rows_of(hashes)
            if before.window + 1 == first == last:
                self._count_pair(before, rows, rows_of_keys[code])
                return
            first, known = before.window, np.flatnonzero(rows_of_keys)
            rows_before = rows_of_keys[known]
            gone_groups, gone_rows = len(before.groups) - len(known), int(before.rows.sum() - rows_before.sum())
            window = np.concatenate([np.full(len(known), first), window])
            code, rows = np.concatenate([known, code]), np.concatenate([rows_before, rows])
        if not is_sorted(window, code):
            order = stable_order(code, window)
            window, code, rows = window[order], code[order], rows[order]
        # Every window except the ends is in two pairs: the second of one, and the first of the next.
        second_of_pair, first_of_pair = window > first, window < last
        # Renumbered so that consecutive windows stay consecutive, and others stay apart.
        number = np.append(0, np.cumsum(np.minimum(np.diff(window), 2)))
        place = number * len(hashes) + code
        in_window_before = place - len(hashes)
        match = np.searchsorted(place, in_window_before)
        in_both = place[match] == in_window_before
        shared = int(np.minimum(rows, rows[match])[in_both].sum())
        common = int(in_both.sum())
        total = int(rows[second_of_pair].sum() + rows[first_of_pair].sum()) + gone_rows
        self.common += common
        self.union += int(second_of_pair.sum() + first_of_pair.sum()) + gone_groups - common
        self.apart += total - 2 * shared
        self.total += total

    def _count_pair(self, before: LastWindow, rows: Int64Array, rows_before: Int64Array) -> None:
        """The usual case: a single window and the one right before it, with `rows_before` of the same groups."""
        common, total = count_true(rows_before), int(rows.sum() + before.rows.sum())
        self.common += common
        self.union += len(rows) + len(before.groups) - common
        self.apart += total - 2 * int(np.minimum(rows, rows_before).sum())  # |a - b| is a + b, less what both have
        self.total += total

    def finish(self, watermark: int) -> None:
        """Finish the batch: windows that closed by the watermark without answers have no groups."""
        operator = self.plan.over_time
        if operator is None:
            return
        for (model, _), window in zip(operator.windows, operator.models, strict=True):
            before, last = self.last.get(model), window.last_ended(watermark)
            if before is not None and last > before.window:
                rows = int(before.rows.sum())
                self.union += len(before.groups)
                self.apart += rows
                self.total += rows
                self.last[model] = LastWindow(last, before.groups[:0], before.rows[:0])
