"""Streams: both stages and the pane store against naive recomputation, with restarts, replays and late rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.engine import map_stage as pane_stage
from muntin.engine import store
from muntin.engine.operators import time as time_operators
from muntin.engine.plan import Plan
from muntin.engine.pruning import without_closed
from muntin.engine.store import HotCache, PaneStore
from muntin.panes import pairs, table
from muntin.panes.table import PaneTable
from muntin.panes.watermarks import Watermarks
from tests import naive, strategies
from tests.builders import (
    CASES,
    Found,
    Step,
    Stream,
    aggregations,
    check,
    check_panes,
    check_window_order,
    living,
    make_plan,
    pane_values,
    row,
    sliding,
)
from tests.naive import Row

NAMES = st.lists(st.sampled_from(list(CASES)), min_size=1, max_size=4, unique=True)
PLANS = st.builds(
    make_plan,
    strategies.windows(),
    strategies.KEYS,
    NAMES,
    shards=strategies.SHARDS,
    emit_late=st.booleans(),
    streaming=st.just(True),
)


STEPS = strategies.steps(
    strategies.rows(st.none() | st.integers(-40, 50), max_size=6), [0, 0, 1, 7, 30, 100], max_size=9
)


def check_state(stream: Stream) -> None:
    """Nothing is in the state but what its header names, and that means the same as what the cache has."""
    plan = stream.plan
    for shard, state in stream.states.items():
        header = stream.store(shard).header
        warm = stream.store(shard).table()
        cold = PaneStore(plan, "query", shard, state, HotCache(capacity=1)).table()
        check_panes(*({} if each is None else open_panes(plan, each, header.watermark) for each in (cold, warm)))
        of_chunks = {each.location.value: each.location.size for each in header.chunks}
        sizes = {each.name: each.size for each in header.segments} | of_chunks
        assert {name: len(value) for name, value in state.values.items()} == sizes
        assert [segment.tier for segment in header.segments] == sorted(
            (segment.tier for segment in header.segments), reverse=True
        )


def open_panes(plan: Plan, panes: PaneTable, watermark: int) -> Mapping[Any, Mapping[str, list[Any]]]:
    return pane_values(plan, without_closed(panes, plan, Watermarks.at(watermark)))


def expected_counts(plan: Plan, rows: list[Row], late: list[Row]) -> dict[str, int]:
    bad = sum(row["t"] is None for row in rows)
    held = sum(row["t"] is not None and bool(naive.places(row, plan.windows, ())) for row in rows)
    return {"rows": held, "late_rows": len(late), "invalid_rows": bad, "outside_rows": len(rows) - held - bad}


def same_rows(found: list[Row], expected: list[Row]) -> bool:
    return sorted(repr(naive.comparable(row)) for row in found) == sorted(
        repr(naive.comparable(row)) for row in expected
    )


@settings(max_examples=60)
@given(
    PLANS, STEPS, st.integers(2, 4), st.sampled_from([0, 1024]), st.sampled_from([1, 1 << 20]), st.sampled_from("rwl")
)
def test_any_stream_is_naive(plan: Plan, steps: list[Step], fanout: int, slack: int, most: int, tree: str) -> None:
    """With trees that are made anew (r), that live beside a table that is read (w), or that is not (l)."""
    any_stream_is_naive(plan, steps, fanout, slack, most, tree)


def any_stream_is_naive(plan: Plan, steps: list[Step], fanout: int, slack: int, most: int, tree: str) -> None:
    stream = Stream(plan)
    oracle = naive.Stream(plan.windows, plan.keys, aggregations(plan))
    closing = Step([], advance=400, tasks=1, cold=False, replay=False)
    counted: Counter[str] = Counter()
    with (
        living(tree != "r"),
        patch.object(store, "FANOUT", fanout),
        patch.object(table, "_SLACK", slack),
        patch.object(time_operators, "MOST_ANSWERS", most),
        patch.multiple(pane_stage, FLUSH_LEAVES=most, ROWS_TOGETHER=most),
        patch.object(pairs, "DENSE_GROUPS", most),
    ):
        for step in [*steps, closing]:
            rows = [row if row["t"] is None else {**row, "t": row["t"] + oracle.watermark} for row in step.rows]
            watermark = oracle.watermark + step.advance
            found, late = stream.run(step, rows, watermark)
            expected, expected_late = oracle.batch(rows, watermark)
            for share in found:
                check_window_order(share)
            check([each for share in found for each in share], expected)
            assert same_rows(late, expected_late if plan.late_row is not None else [])
            counts = expected_counts(plan, rows, expected_late)
            counted.update(counts)
            assert {name: stream.total(name) for name in counts} == counts
            assert {name: stream.total(f"total_{name}") for name in counted} == counted
            assert stream.total("results") == len(expected)
            if tree != "l":
                check_state(stream)
    check_state(stream)
    # All windows have closed: nothing is left.
    assert stream.total("panes") == 0
    assert all(not state.values for state in stream.states.values())


@given(PLANS, strategies.rows(st.integers(1, 60)), st.lists(st.integers(0, 60), max_size=4))
def test_a_stream_of_a_table_is_the_table(plan: Plan, rows: list[Row], cuts: list[int]) -> None:
    stream = Stream(plan)
    edges = sorted(min(cut, len(rows)) for cut in cuts)
    for begin, end in zip([0, *edges], [*edges, len(rows)], strict=True):
        shares, _ = stream.batch(rows[begin:end], 0)
        assert not any(shares)  # the watermark has not moved
    shares, _ = stream.batch([], 1000)
    found = [each for share in shares for each in share]
    check(found, naive.answers(rows, plan.windows, plan.keys, aggregations(plan)))


# The rules, one by one


def windows_of(found: Found) -> list[tuple[int, int, int]]:
    """Start, end and count."""
    return [(place[1], place[0], values["count"]) for share in found[0] for place, values in share]


def stream_of(*windows: tuple[int, int], **options: Any) -> Stream:
    return Stream(make_plan([sliding(size, slide) for size, slide in windows], (), streaming=True, **options))


def test_a_row_is_late_only_for_the_windows_that_have_closed() -> None:
    #   0   5   10  15
    #   [-------)          closed
    #       [-------)      open
    stream = stream_of((10, 5))
    assert windows_of(stream.batch([row(7)], 10)) == [(0, 10, 1)]
    assert windows_of(stream.batch([row(8)], 10)) == []
    assert stream.total("late_rows") == 0
    assert windows_of(stream.batch([], 15)) == [(5, 15, 2)]


def test_lateness_goes_by_the_watermark_of_the_batch_before() -> None:
    stream = stream_of((10, 10))
    assert windows_of(stream.batch([row(15)], 10)) == []
    # The window of 9 ended with the batch before; that of 11 ends with this one, and still counts it.
    assert windows_of(stream.batch([row(9), row(11)], 20)) == [(10, 20, 2)]
    assert stream.total("late_rows") == 1


def test_a_window_closes_when_the_watermark_reaches_its_end() -> None:
    stream = stream_of((10, 10))
    assert windows_of(stream.batch([row(3)], 9)) == []
    assert windows_of(stream.batch([], 10)) == [(0, 10, 1)]
    assert windows_of(stream.batch([], 100)) == []


def test_windows_without_rows_are_not_emitted() -> None:
    stream = stream_of((2, 2))
    assert windows_of(stream.batch([row(1), row(101)], 1000)) == [(0, 2, 1), (100, 102, 1)]


def test_a_watermark_never_goes_back() -> None:
    stream = stream_of((10, 10))
    stream.batch([row(15)], 10)
    for _ in range(2):
        assert windows_of(stream.batch([row(5)], 0)) == []
        assert stream.total("late_rows") == 1
    assert windows_of(stream.batch([], 20)) == [(10, 20, 1)]


def test_late_rows_are_emitted_whole() -> None:
    plan = make_plan([sliding(10, 10)], ("k",), ["sum_n"], shards=[1, 2], emit_late=True, streaming=True)
    stream = Stream(plan)
    stream.batch([], 100)
    lost = [row(5, k=None, x=None, s={"a": 1.5, "b": None}), row(-7, k="b")]
    found, late = stream.batch([*lost, row(105)], 100)
    assert same_rows(late, lost)
    assert not any(found)
    assert stream.total("late_rows") == 2


def test_rows_before_1970_are_late_from_the_first_batch_as_in_spark() -> None:
    # Spark's watermark is 0 before it has seen anything.
    stream = stream_of((10, 10))
    assert windows_of(stream.batch([row(-1), row(-5), row(1)], 10)) == [(0, 10, 1)]
    assert stream.total("late_rows") == 2


def test_a_replayed_batch_does_not_trust_what_was_not_committed() -> None:
    stream = stream_of((10, 10))
    stream.batch([row(1)], 0)
    before = stream.snapshot()
    stream.batch([row(2), row(3)], 5)
    stream.restore(before)
    assert windows_of(stream.batch([row(2)], 10)) == [(0, 10, 2)]
    assert stream.total("cache_misses") == 1
    stream.batch([row(11)], 10)
    assert stream.total("cache_hits") == 1


def test_a_cold_worker_knows_what_a_warm_one_does() -> None:
    warm, cold = (stream_of((20, 5)) for _ in range(2))
    for i in range(40):
        cold.cache = HotCache(capacity=8)
        rows = [row(i), row(i - 3), row(i + 4)]
        assert windows_of(warm.batch(rows, i)) == windows_of(cold.batch(rows, i))
        assert warm.total("hot_bytes") > 0


def test_a_shard_without_rows_keeps_up() -> None:
    plan = make_plan([sliding(10, 10)], shards=[1, 2], streaming=True)
    stream = Stream(plan)
    stream.batch([row(1, k="a")], 50)
    assert {stream.store(shard).header.watermark for shard in plan.shards} == {50}


@pytest.mark.parametrize("in_order", [True, False])
def test_a_long_run_keeps_a_bounded_state(in_order: bool) -> None:
    stream = stream_of((64, 1))
    sizes, counts = [], []
    with patch.object(store, "FANOUT", 4):
        for i in range(600):
            stream.batch([row(i if in_order else i - (7 * i) % 30, n=j) for j in range(3)], i - 30)
            sizes.append(stream.total("state_bytes"))
            counts.append(stream.total("segments"))
    # About a hundred batches are open; 4**4 > 100, and a tier has at most three segments.
    assert max(counts) <= 3 * 5
    assert max(sizes[300:]) <= max(sizes[:300]) + 1000  # header numbers grow by a digit
    assert stream.total("panes") <= 64 + 60
    assert stream.total("total_rows") == 1800


EXACT = ["count", "sum_n", "mean_n", "min_x", "max_x", "first_x", "argmax_x_by_w", "median_x", "distinct_x"]
ROUNDED = ["sum_x", "mean_x", "stddev_pop"]


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(-15, 30), st.sampled_from("abcd"), st.integers(-30, 30)), max_size=8),
        min_size=1,
        max_size=8,
    )
)
def test_a_cold_worker_differs_from_a_warm_one_by_rounding_alone(drawn: list[list[tuple[int, str, int]]]) -> None:
    plan = make_plan([sliding(24, 3)], ("k",), EXACT + ROUNDED, streaming=True)
    warm, cold, watermark = Stream(plan), Stream(plan), 0
    with patch.object(store, "FANOUT", 2):
        for batch in [*drawn, []]:
            rows = [row(watermark + t, k=k, x=tenths / 10, n=tenths) for t, k, tenths in batch]
            watermark += 10 if batch else 100
            cold.cache = HotCache(capacity=1)
            ((ours,), _), ((theirs,), _) = warm.batch(rows, watermark), cold.batch(rows, watermark)
            assert dict(ours).keys() == dict(theirs).keys()
            for place, one in ours:
                other = dict(theirs)[place]
                assert all(repr(one[name]) == repr(other[name]) for name in EXACT)
                assert all(math.isclose(one[name], other[name], rel_tol=1e-13, abs_tol=1e-13) for name in ROUNDED)
