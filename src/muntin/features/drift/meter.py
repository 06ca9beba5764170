"""Concept drift (CoD, section II.C): how much the groups of a window differ from those of the window before.

A window's concept is the frequencies of its groups. *Overlap* is the share of the groups of either window that both
have; *distance* is how far the frequencies are apart, after Bray and Curtis: the sum of all differences over the sum of
all frequencies, between 0 and 1. Both are quotients of sums over groups, and a group is in one shard: so shards count,
and the counts add up.
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
    """The last window of a model that has closed, as a shard knows it."""

    window: int
    groups: UInt64Array
    """Hashes of the keys: of 64 bits, so that two of them hardly ever meet."""
    rows: Int64Array

    def rows_of(self, hashes: UInt64Array) -> Int64Array:
        """How many rows each of the keys with these hashes has; of groups that are gone, nothing is said."""
        code = pc.index_in(pa.array(self.groups), value_set=pa.array(hashes))
        there = np.asarray(code.is_valid())
        rows = np.zeros(len(hashes), dtype=np.int64)
        rows[np.asarray(code.drop_null())] = self.rows[there]
        return rows


@dataclass
class DriftMeter:
    """Counts the drift of a shard over all pairs of neighbouring windows that close with one batch.

    A window in which the shard has no group is one without groups, as it cannot see the other shards. It counts from
    the first window on of which it knows groups: what came before that is not known, so there is nothing to compare.
    """

    plan: Plan
    last: dict[int, LastWindow] = field(default_factory=dict)
    """By model: the last window before, and in the end that of this batch."""
    common: int = 0
    """Groups that are in both windows of a pair."""
    union: int = 0
    """Groups that are in either."""
    apart: int = 0
    """By how many rows groups differ."""
    total: int = 0
    """How many rows they have."""

    @classmethod
    def since(cls, plan: Plan, last: Mapping[int, LastWindow] | None) -> DriftMeter:
        return cls(plan, dict(last or {}))

    def add(self, answers: Answers, rows: Int64Array, known_keys: pa.RecordBatch) -> None:
        """Windows in order, with the rows of each, all groups of a window together; `known_keys` by their codes."""
        if not len(rows):
            return
        hashes = keys.hashes([known_keys.column(key) for key in self.plan.keys], known_keys.num_rows)
        window, code, model = answers.window, answers.key, answers.model
        if are_one(model):
            self._add(int(model[0]), window, code, rows, hashes)
            return
        for each in np.unique(model).tolist():
            own = model == each
            self._add(each, window[own], code[own], rows[own], hashes)

    def _add(self, model: int, window: Int64Array, code: Int64Array, rows: Int64Array, hashes: UInt64Array) -> None:
        before = self.last.get(model)
        first, last = int(window.min()), int(window.max())
        ends = window == last
        self.last[model] = LastWindow(last, hashes[code[ends]], rows[ends])
        gone_groups, gone_rows = 0, 0
        if before is not None:
            of_keys = before.rows_of(hashes)
            if before.window + 1 == first == last:
                self._count_pair(before, rows, of_keys[code])
                return
            first, known = before.window, np.flatnonzero(of_keys)
            rows_before = of_keys[known]
            gone_groups, gone_rows = len(before.groups) - len(known), int(before.rows.sum() - rows_before.sum())
            window = np.concatenate([np.full(len(known), first), window])
            code, rows = np.concatenate([known, code]), np.concatenate([rows_before, rows])
        if not is_sorted(window, code):
            order = stable_order(code, window)
            window, code, rows = window[order], code[order], rows[order]
        # A window is the later one of the pair that it closes, and the earlier one of the next.
        later, earlier = window > first, window < last
        # Windows numbered so that neighbours stay neighbours, and others do not become any.
        number = np.append(0, np.cumsum(np.minimum(np.diff(window), 2)))
        place = number * len(hashes) + code
        in_window_before = place - len(hashes)
        at = np.searchsorted(place, in_window_before)
        in_both = place[at] == in_window_before
        shared = int(np.minimum(rows, rows[at])[in_both].sum())
        common = int(in_both.sum())
        total = int(rows[later].sum() + rows[earlier].sum()) + gone_rows
        self.common += common
        self.union += int(later.sum() + earlier.sum()) + gone_groups - common
        self.apart += total - 2 * shared
        self.total += total

    def _count_pair(self, before: LastWindow, rows: Int64Array, rows_before: Int64Array) -> None:
        """A single window, and the one right before it, as mostly: of its groups, the rows in both."""
        common, total = count_true(rows_before), int(rows.sum() + before.rows.sum())
        self.common += common
        self.union += len(rows) + len(before.groups) - common
        self.apart += total - 2 * int(np.minimum(rows, rows_before).sum())  # |a - b| is a + b, less what both have
        self.total += total

    def finish(self, watermark: int) -> None:
        """No more answers: windows that have closed by the watermark without any have no groups."""
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
