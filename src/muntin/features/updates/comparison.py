"""Answers of a batch are compared with the ledger: rows that have changed are emitted, and get their revision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, BoolArray, Int64Array, count_true
from muntin.engine.answers import result_batch
from muntin.engine.batch import ShardBatch
from muntin.engine.emitted import Results
from muntin.engine.operators.operator import Answers, TupleOperator
from muntin.engine.plan import Plan
from muntin.features.updates.digests import digests
from muntin.features.updates.ledger import DIGEST, END, KEPT, REVISION, START, Ledger, LedgerStore, in_order
from muntin.features.updates.selection import EARLY, LATE, Times
from muntin.panes.table import Leaves
from muntin.windows import PaneWindow

TIMINGS = pa.array(["early", "on_time", "late"])
RETRACTED = 0x6D756E74696E
"""The digest of a window that does not exist any more."""


class Comparison:
    """The rows of one batch of a shard."""

    def __init__(self, plan: Plan, store: LedgerStore, ledger: Ledger, early: bool) -> None:
        """`early` says whether open windows may be emitted in this batch."""
        self._plan = plan
        self._store = store
        self._early = early
        self.ledger = ledger
        self.emits_early = False
        """Whether there was an early row."""
        self._added: list[list[Leaves]] = [[] for _ in plan.windows]
        self._seen: list[list[Leaves]] = [[] for _ in plan.windows]
        """The windows over tuples that exist, emitted or not."""
        self._codes: tuple[pa.RecordBatch | None, Int64Array] = (None, np.zeros(0, dtype=np.int64))

    def changed(self, item: Results, batch: ShardBatch) -> Results:
        """The rows that may be emitted, and differ from the last ones of their windows."""
        assert item.windows is not None
        plan, answers, times = self._plan, item.windows.answers, Times.of(batch, item.windows.operator)
        key, count = self._codes_of(batch)[answers.key], len(answers.key)
        digest, timing = self._digest(item, answers), times.timing(answers.end)
        is_allowed = (timing != EARLY) | self._early
        revision, is_emitted, unchanged = np.empty_like(digest), np.empty(count, dtype=bool), 0
        for model, window in enumerate(plan.windows):
            rows = np.flatnonzero(answers.model == model) if len(plan.windows) > 1 else np.arange(count)
            last = self.ledger.last(model, answers.window[rows], key[rows])
            revision[rows] = last[REVISION] + 1
            differs = (last[REVISION] < 0) | (last[DIGEST] != digest[rows])
            is_emitted[rows] = differs & is_allowed[rows]
            unchanged += len(rows) - count_true(differs)
            state = [revision[rows], digest[rows]]
            if isinstance(window, PaneWindow):
                self._add(model, key, answers, rows, state, is_emitted[rows])
                continue
            complete = times.complete(answers.end[rows])
            bounds = [answers.start[rows], complete, np.maximum(complete, last[KEPT])]
            self._seen[model].append(Leaves(key[rows], answers.window[rows], ()))
            self._add(model, key, answers, rows, [*state, *bounds], is_emitted[rows])
            # A window may have grown without a row: its entry must not be dropped before it is final.
            has_moved = ~is_emitted[rows] & (last[REVISION] >= 0) & (last[END] != bounds[1])
            self._add(model, key, answers, rows, [last[REVISION], last[DIGEST], *bounds], has_moved)
        emitted = np.flatnonzero(is_emitted)
        self._measure(batch, timing[emitted], unchanged)
        rows = item.rows if len(emitted) == count else item.rows.take(pa.array(emitted))
        rows = with_columns(rows, timing[emitted], revision[emitted], retracted=False)
        return replace(item, rows=rows, windows=item.windows.take(emitted))

    def retracted(self, operator: TupleOperator, keys: Int64Array, batch: ShardBatch) -> Iterator[Results]:
        """Rows for the windows of these keys that were emitted and do not exist any more."""
        assert batch.ingested is not None
        times, table = Times.of(batch, operator), batch.ingested.table
        codes = self._codes_of(batch)[keys]
        of_table = np.full(self.ledger.keys.num_rows, -1, dtype=np.int64)
        of_table[codes] = keys
        for model, _ in operator.windows:
            entries = self.ledger.of_keys(model, of_table >= 0)
            exists = in_order(self._seen[model]).find(entries.time, entries.key)[1] if self._seen[model] else False
            is_gone = ~np.asarray(exists) & (entries.state[END] > times.final) & (entries.state[DIGEST] != RETRACTED)
            timing = times.timing(entries.state[END] - times.last_tuple)
            is_gone &= (timing != EARLY) | self._early  # like the row of the window that it has become part of
            gone, timing = entries.take(is_gone), timing[is_gone]
            if not len(gone):
                continue
            revision, end = gone.state[REVISION] + 1, gone.state[END] - times.last_tuple
            retracted = np.full(len(gone), RETRACTED)
            state = (revision, retracted, *gone.state[START:])
            self._added[model].append(Leaves(gone.key, gone.time, state))
            answers = Answers(np.full(len(gone), model), gone.time, of_table[gone.key], gone.state[START], end)
            columns = [*self._plan.schema.columns, *self._quality]
            rows = result_batch(
                self._plan.schema, table, answers, [pa.nulls(len(gone), column.type) for column in columns]
            )
            self._measure(batch, timing, 0)
            yield Results(with_columns(rows, timing, revision, retracted=True))

    @property
    def entries(self) -> list[list[Leaves]]:
        """The entries that the batch adds to the ledger, by model."""
        return self._added

    @property
    def _quality(self) -> list[pa.Field]:
        schema = self._plan.schema
        return [schema.results.field("quality")] if schema.is_estimated else []

    def _digest(self, item: Results, answers: Answers) -> Int64Array:
        """The digest of each row: of its answers, and of the bounds of windows whose bounds may change."""
        names = [column.name for column in [*self._plan.schema.columns, *self._quality]]
        columns = [item.rows.column(name) for name in names]
        assert item.windows is not None
        if isinstance(item.windows.operator, TupleOperator):
            columns += [pa.array(answers.start), pa.array(answers.end)]
        return digests(columns, len(answers.key))

    def _codes_of(self, batch: ShardBatch) -> Int64Array:
        """The codes of all keys of the table in the ledger."""
        assert batch.ingested is not None
        keys = batch.ingested.table.keys
        if self._codes[0] is not keys:
            self.ledger, codes = self.ledger.with_keys(self._store.layout, keys)
            self._codes = keys, codes
        return self._codes[1]

    def _add(
        self,
        model: int,
        key: Int64Array,
        answers: Answers,
        rows: Int64Array,
        state: Sequence[Array],
        where: BoolArray,
    ) -> None:
        chosen = rows[where]
        columns = tuple(column[where] for column in state)
        self._added[model].append(Leaves(key[chosen], answers.window[chosen], columns))

    def _measure(self, batch: ShardBatch, timing: Int64Array, unchanged: int) -> None:
        early, late = int((timing == EARLY).sum()), int((timing == LATE).sum())
        self.emits_early |= early > 0
        batch.metrics.add(early_results=early, late_results=late, unchanged_windows=unchanged)


def with_columns(rows: pa.RecordBatch, timing: Int64Array, revision: Int64Array, retracted: bool) -> pa.RecordBatch:
    """The rows with the columns of updates filled."""
    columns = {
        "timing": TIMINGS.take(pa.array(timing)),
        "revision": pa.array(revision),
        "retracted": pa.array(np.full(rows.num_rows, retracted)),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, rows.column(index)) for index, field in enumerate(rows.schema)], schema=rows.schema
    )
