"""All worker models give what one worker gives: any windows, keys, aggregates and numbers of workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.features.workers.collector import in_window_order
from muntin.features.workers.jobs import Job
from muntin.features.workers.policy import KEYED, Workers
from muntin.holistic.applied import Applied
from tests import strategies
from tests.builders import TYPES as PLAIN_TYPES
from tests.builders import (
    Step,
    Stream,
    advance_table,
    answer,
    answer_table,
    by_shard,
    make_plan,
    pack,
    plan_of,
    read,
    row,
    sliding,
    tiny,
)
from tests.naive import Row
from tests.stages.test_models import LIMITS, MAYBE_TIMES, NAMES, STEPS, TYPES, check_stream, check_table, without_order

FREE = [each for name, each in strategies.MODELS.items() if name in ("cumulative", "session", "count")]
ACTIVE = st.builds(lambda count, batch: Workers("active", count, batch), st.integers(1, 4), st.integers(1, 3))
AGNOSTIC = st.builds(lambda count, tasks: Workers("agnostic", count, tasks=tasks), st.integers(1, 4), st.integers(1, 9))


@st.composite
def free_windows(draw: st.DrawFn) -> list[W.Window]:
    time = st.builds(sliding, strategies.LENGTHS, strategies.LENGTHS, st.integers(-9, 9))
    chosen = draw(st.lists(st.one_of(time, time, *FREE), min_size=1, max_size=3))
    return [replace(window, name=f"w{i}") for i, window in enumerate(chosen)]


SPREAD = st.one_of(st.tuples(free_windows(), ACTIVE), st.tuples(strategies.models(), AGNOSTIC))


def plan_with(spread: tuple[list[W.Window], Workers], keys: tuple[str, ...], names: list[str], **others: Any) -> Plan:
    windows, workers = spread
    shards = tuple(range(workers.count or 1))
    names = without_order(names, windows)
    return make_plan(windows, keys, names, shards=shards, types=TYPES, workers=workers, **others)


@settings(max_examples=50)
@given(
    st.builds(plan_with, SPREAD, strategies.KEYS, NAMES),
    strategies.growing_rows(MAYBE_TIMES, max_size=30),
    LIMITS,
    st.data(),
)
def test_any_table_is_naive(plan: Plan, rows: list[Row], limits: tuple[int, int, int], data: st.DataObject) -> None:
    with tiny(*limits):
        check_table(plan, data.draw(strategies.cuts(rows)))


@settings(max_examples=50)
@given(
    st.builds(
        plan_with,
        SPREAD,
        strategies.KEYS,
        NAMES,
        emit_late=st.booleans(),
        streaming=st.just(True),
        delay=st.none() | st.integers(1, 20),
    ),
    STEPS,
    LIMITS,
)
def test_any_stream_is_naive(plan: Plan, steps: list[Step], limits: tuple[int, int, int]) -> None:
    """With late rows, cold workers, and batches that run twice."""
    with tiny(*limits):
        check_stream(plan, steps)


APPLIED = Applied(
    lambda table: table.rename_columns(["at", "number"]),
    pa.schema([("at", PLAIN_TYPES["t"]), ("number", pa.int64())]),
    ("t", "n"),
    "arrow",
)
"""Tells all that a window holds, one row for each of its tuples."""


@settings(max_examples=40)
@given(SPREAD, strategies.KEYS, strategies.growing_rows(max_size=30))
def test_a_function_gets_the_same_tuples(
    spread: tuple[list[W.Window], Workers], keys: tuple[str, ...], rows: list[Row]
) -> None:
    windows, workers = spread
    shards = tuple(range(workers.count or 1))
    one, many = (
        make_plan(windows, keys, [], shards=shards, types=TYPES, applied=APPLIED, workers=each)
        for each in (KEYED, workers)
    )
    assert results(one, rows) == results(many, rows)


def results(plan: Plan, rows: Sequence[Row]) -> list[str]:
    return sorted(repr(each) for share in answer(plan, [rows]) for each in share)


def jobs_of(plan: Plan, rows: Sequence[Row]) -> list[Job]:
    told = [each for share in by_shard(plan, pack(plan, [rows])).values() for each in advance_table(plan, share)]
    assert all(isinstance(each, Job) for each in told)
    return [each for each in told if isinstance(each, Job)]


def test_a_job_has_what_its_windows_need_once() -> None:
    plan = make_plan([sliding(10, 1)], (), ["median_x", "sum_n"], workers=Workers("agnostic", 2, tasks=4))
    jobs = jobs_of(plan, [row(t) for t in range(100)])
    assert [len(job) for job in jobs] == [29, 25, 26, 29]  # the first and the last windows hold less
    for job in jobs:
        assert job.table.tuples is not None
        times = job.table.tuples.time
        start, end = job.closing.answers.start.min(), job.closing.answers.end.max()
        assert times.tolist() == list(range(max(start, 0), min(end, 100)))
        assert job.table.panes.time.tolist() == times.tolist()


def test_jobs_cost_about_the_same() -> None:
    """One window in ten has ninety per cent of the tuples."""
    plan = make_plan([sliding(10, 10)], (), ["median_x"], workers=Workers("agnostic", 2, tasks=8))
    rows = [row(t, n=i) for t in range(400) for i in range(100 if t // 10 % 10 == 0 else 1)]
    jobs = jobs_of(plan, rows)
    costs = [len(job.table.tuples or ()) for job in jobs]
    assert sum(costs) == len(rows)
    assert max(costs) <= 1000 + len(rows) / 8


def test_the_costliest_job_is_begun_first() -> None:
    plan = make_plan([sliding(10, 10)], (), ["median_x"], workers=Workers("agnostic", 2, tasks=4))
    sizes = [1, 3, 50, 2, 9, 30, 4, 8]
    jobs = jobs_of(plan, [row(10 * at, n=i) for at, size in enumerate(sizes) for i in range(size)])
    starts = [int(job.closing.answers.start.min()) for job in jobs]
    assert starts == sorted(starts)  # they stay in window order
    costs = {job.turn: len(job.table.tuples or ()) for job in jobs}
    assert sorted(costs) == list(range(len(jobs)))
    assert [costs[turn] for turn in sorted(costs)] == sorted(costs.values(), reverse=True)
    assert max(costs.values()) <= 50 + 4


def test_a_hot_key_has_jobs_of_its_own() -> None:
    plan = make_plan([sliding(10, 10)], ("k",), ["median_x"], workers=Workers("agnostic", 2, tasks=8))
    rows = [row(t, k="hot", n=i) for t in range(80) for i in range(50)] + [row(t, k=f"k{t}") for t in range(80)]
    jobs = jobs_of(plan, rows)
    hot = [job for job in jobs if "hot" in job.table.keys.column("k").to_pylist()]
    assert len(hot) >= 4
    assert sum(len(job.table.tuples or ()) for job in jobs) == len(rows)


def test_jobs_of_a_damaged_message_are_refused() -> None:
    plan = make_plan([sliding(10, 1)], (), ["median_x"], workers=Workers("agnostic", 2, tasks=1))
    (job,) = jobs_of(plan, [row(1)])
    payload = bytearray(job.pack())
    payload[-1] ^= 1
    with pytest.raises(Exception, match="damaged"):
        Job.unpack(plan.layout, bytes(payload))


@settings(max_examples=40)
@given(st.builds(plan_with, SPREAD, strategies.KEYS, NAMES), strategies.growing_rows(max_size=30), st.randoms())
def test_the_collector_puts_everything_in_window_order(plan: Plan, rows: list[Row], random: Any) -> None:
    batches = []
    for shard, share in by_shard(plan, pack(plan, [rows])).items():
        for batch in answer_table(plan_of(plan, shard), share):
            cut = random.randint(0, batch.num_rows)
            batches += [batch.slice(0, cut), batch.slice(cut)]
    random.shuffle(batches)
    ordered = list(in_window_order(plan, batches))
    found, _ = read(plan, ordered)
    bounds = [place[:2] for place, _ in found]
    assert bounds == sorted(bounds)
    unordered, _ = read(plan, batches)
    assert sorted(map(repr, found)) == sorted(map(repr, unordered))
    random.shuffle(batches)
    again, _ = read(plan, in_window_order(plan, batches))
    assert repr(again) == repr(found)


def test_active_workers_share_the_state_of_a_stream() -> None:
    """A worker keeps the panes of its own windows: tumbling ones are kept once in all."""
    plan = make_plan([sliding(10, 10)], (), ["sum_n"], shards=(0, 1), streaming=True, workers=Workers("active", 2))
    stream = Stream(plan)
    stream.batch([row(t) for t in range(40)], 0)
    assert stream.total("panes") == 4
    assert stream.total("rows") == 40
    found, _ = stream.batch([], 1000)
    assert sorted(place[3] for share in found for place, _ in share) == [0, 1, 2, 3]
    assert [sorted(place[3] for place, _ in share) for share in found] == [[0, 2], [1, 3]]


@pytest.mark.parametrize("shift", range(8))
def test_wherever_a_job_begins_its_numbers_are_aligned(shift: int) -> None:
    plan = make_plan([sliding(10, 1)], (), ["median_x", "sum_n"], workers=Workers("agnostic", 2, tasks=1))
    (share,) = by_shard(plan, pack(plan, [[row(t) for t in range(100)]])).values()
    (job,) = (each for each in advance_table(plan, share, Metrics()) if isinstance(each, Job))
    tuples = Job.unpack(plan.layout, pa.py_buffer(bytes(shift) + job.pack()).slice(shift)).table.tuples
    assert tuples is not None
    numbers = [np.asarray(column) for column in tuples.columns.columns]
    assert len(numbers) > 1
    assert all(each.flags.aligned for each in [tuples.key, tuples.time, *numbers])


def test_metrics_tell_what_was_sent() -> None:
    plan = make_plan([sliding(10, 1)], (), ["median_x"], workers=Workers("agnostic", 2, tasks=4))
    metrics = Metrics()
    (share,) = by_shard(plan, pack(plan, [[row(t) for t in range(100)]])).values()
    jobs = list(advance_table(plan, share, metrics))
    assert metrics.jobs == len(jobs) == 4
    assert metrics.arrived_bytes == sum(len(each.panes or b"") for each in share) > 0
    assert metrics.results == 109
    assert np.sum([len(job) for job in jobs if isinstance(job, Job)]) == 109
