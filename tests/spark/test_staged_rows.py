"""The rows that a shard emits: every payload once and in order, and the metrics with the last of them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.engine.emitted import Emitted, Results
from muntin.engine.metrics import ENGINE_METRICS, Metrics, names
from muntin.engine.plan import Plan
from muntin.spark import window_stage
from muntin.spark.table_stage import _batch, _results
from muntin.spark.window_stage import MOST_ROWS, READY, STAGED, StagedRow, StagedRows, _frame, frames, unpacked

PLAN = cast("Plan", SimpleNamespace(steps=(), shards=(0,), reported=ENGINE_METRICS))


def results(count: int) -> Results:
    return Results(pa.record_batch({"x": list(range(count))}))


def unpack(rows: list[StagedRow]) -> list[list[int]]:
    batches = pa.record_batch({"payload": [row.payload for row in rows if row.payload is not None]})
    return [batch["x"].to_pylist() for batch in unpacked(iter([batches]))]


@pytest.mark.parametrize("sizes", [[], [3], [3, 1, 2]])
def test_the_last_row_has_the_metrics_of_the_whole_run(sizes: list[int]) -> None:
    metrics = Metrics()

    def emitted() -> Iterator[Emitted]:
        yield from map(results, sizes)
        metrics.add(rows=7)  # a commit changes metrics after the last results

    staged = StagedRows(PLAN, 0, emitted(), metrics)
    before, last = list(staged.before_last()), staged.last()
    assert unpack([*before, last]) == [list(range(size)) for size in sizes]
    assert [row.metrics for row in before] == [None] * max(0, len(sizes) - 1)
    assert last.metrics is not None
    assert dict(zip(names(ENGINE_METRICS), last.metrics, strict=True))["rows"] == 7
    assert last.task == READY


def test_rows_have_the_columns_of_the_stage() -> None:
    row = StagedRow(3, b"x", [1, 2])
    assert list(_frame(row).columns) == STAGED.names == _batch(row).schema.names
    assert _batch(row).to_pylist() == [{"task": 3, "payload": b"x", "metrics": [1, 2]}]
    assert _batch(StagedRow()).to_pylist() == [{"task": READY, "payload": None, "metrics": None}]


def test_results_of_tables_leave_in_order_and_in_small_batches() -> None:
    left = list(_results(iter([results(2 * MOST_ROWS + 1), results(0), results(3)])))
    assert [batch.num_rows for batch in left] == [MOST_ROWS, MOST_ROWS, 1, 3]
    assert [value for batch in left for value in batch["x"].to_pylist()] == [*range(2 * MOST_ROWS + 1), *range(3)]


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(0, 7))
def test_an_arrow_batch_gets_no_more_than_it_can_hold(sizes: list[int], before: int) -> None:
    """Wherever Spark's batches begin, behind the rows of another shard: batches are limited by rows alone."""
    rows, most = 8, 100
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_stage, "ARROW_ROWS", rows)
        patch.setattr(window_stage, "BATCH_BYTES", most)
        staged = [StagedRow(payload=bytes([number]) * size) for number, size in enumerate(sizes)]
        sent = [b""] * before
        sent += [payload for frame in frames(staged) for payload in frame["payload"]]
    assert [payload for payload in sent if payload] == [row.payload for row in staged]
    for begin in range(0, len(sent), rows):
        assert sum(map(len, sent[begin : begin + rows])) < most + max(sizes, default=0)


def test_padding_is_no_result() -> None:
    packed = list(window_stage.packed_rows(results(3).rows))
    rows = pa.record_batch({"payload": [b"", *packed, b"", b""]})
    assert [batch["x"].to_pylist() for batch in unpacked(iter([rows]))] == [[0, 1, 2]]
