"""Tables: pane stage and answers against naive recomputation."""

from __future__ import annotations

import math
from bisect import bisect_left
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.arrays import expand
from muntin.engine import map_stage as pane_stage
from muntin.engine.answers import closed_windows, rendered
from muntin.engine.contents import ShardTuples
from muntin.engine.operators import leaf_index
from muntin.engine.operators import time as time_operators
from muntin.engine.operators.leaf_index import LeafIndex
from muntin.engine.operators.operator import NEVER_MORE
from muntin.engine.operators.time import new_windows
from muntin.engine.plan import Plan
from muntin.panes import pairs
from muntin.panes.table import LeafSet, Leaves
from muntin.windows import PaneWindow
from tests import naive, strategies
from tests.builders import (
    CASES,
    aggregations,
    answer,
    answer_table,
    by_shard,
    check,
    check_window_order,
    lift,
    make_plan,
    pack,
    read,
    row,
    sliding,
)
from tests.naive import Row

NAMES = st.lists(st.sampled_from(list(CASES)), min_size=1, max_size=4, unique=True)
PLANS = st.builds(make_plan, strategies.windows(), strategies.KEYS, NAMES, shards=strategies.SHARDS)


@settings(max_examples=80)
@given(PLANS, strategies.rows(st.none() | strategies.TIMES), st.data())
def test_any_table_is_naive(plan: Plan, rows: list[Row], data: st.DataObject) -> None:
    flush, dense = data.draw(st.sampled_from([(10**6, 1 << 16), (3, -(10**6)), (0, 1 << 16)]))
    most = data.draw(st.sampled_from([1 << 20, 5, 1]))
    with (
        patch.multiple(pane_stage, FLUSH_LEAVES=flush, ROWS_TOGETHER=most),
        patch.object(pairs, "DENSE_GROUPS", dense),
        patch.object(time_operators, "MOST_ANSWERS", most),
    ):
        found = list(answer(plan, data.draw(strategies.cuts(rows))))
    for share in found:
        check_window_order(share)
    everything = [each for share in found for each in share]
    check(everything, naive.answers(rows, plan.windows, plan.keys, aggregations(plan)))


@given(strategies.windows(), strategies.KEYS, strategies.rows(), st.data())
def test_the_order_of_arrival_does_not_matter(
    windows: list[PaneWindow], keys: tuple[str, ...], rows: list[Row], data: st.DataObject
) -> None:
    exact = [name for name in CASES if not name.startswith(("var", "stddev"))]  # these within rounding only
    plan = make_plan(windows, keys, exact)

    def results_of(arrival: list[Row]) -> list[str]:
        return sorted(repr(each) for share in answer(plan, [arrival]) for each in share)

    assert results_of(data.draw(st.permutations(rows))) == results_of(rows)


@given(strategies.rows(), st.data())
def test_tuples_within_a_pane_are_combined_in_time_order(rows: list[Row], data: st.DataObject) -> None:
    plan = make_plan([sliding(60, 20)], (), ["composed", "composed_where"])
    (found,) = answer(plan, data.draw(strategies.cuts(rows)))
    check(found, naive.answers(rows, plan.windows, plan.keys, aggregations(plan)))


@given(strategies.rows(min_size=1), st.integers(2, 4), st.data())
def test_several_tasks_are_as_one(rows: list[Row], tasks: int, data: st.DataObject) -> None:
    plan = make_plan([sliding(12, 5, name="a"), sliding(7, 7, 3, name="b")], ("k",), ["sum_n", "max_w", "composed"])
    sent = [each for task in range(tasks) for each in pack(plan, [rows[task::tasks]])]
    found, _ = read(plan, answer_table(plan, data.draw(st.permutations(sent))))
    check(found, naive.answers(rows, plan.windows, plan.keys, aggregations(plan)))


FAR = st.integers(-30, 30) | st.sampled_from([-(2**61), 2**61])


@given(st.lists(st.tuples(st.integers(0, 9), FAR), min_size=1))
def test_times_far_apart(drawn: list[tuple[int, int]]) -> None:
    plan = make_plan([sliding(4, 3)], names=["sum_n", "last_w", "composed"])
    rows = [row(t, k=str(key), n=t % 7, w=str(t)) for key, t in drawn]
    (found,) = answer(plan, [rows])
    check(found, naive.answers(rows, plan.windows, plan.keys, aggregations(plan)))


@pytest.mark.parametrize("name", CASES)
def test_a_window_in_which_nothing_counts(name: str) -> None:
    plan = make_plan([sliding(10, 10)], names=[name])
    rows = [row(1, x=None, n=None, w=None, kept=None)]
    (found,) = answer(plan, [rows])
    check(found, naive.answers(rows, plan.windows, plan.keys, aggregations(plan)))


def test_no_rows_no_windows() -> None:
    plan = make_plan([sliding(10, 5)], names=["count", "composed"], shards=[1, 2])
    assert list(answer(plan, [])) == [[], []]
    assert list(answer(plan, [[], [row(None)]])) == [[], []]


def test_many_keys_in_one_window() -> None:
    plan = make_plan([sliding(10, 10)], names=["count"], shards=range(4))
    rows = [row(i % 10, k=f"key {i % 1000}") for i in range(3000)]
    found = [each for share in answer(plan, [rows[:1234], rows[1234:]]) for each in share]
    assert {place[4]: values["count"] for place, values in found} == {(f"key {i}",): 3 for i in range(1000)}
    assert len(found) == 1000


def test_windows_are_sliced_to_bound_memory() -> None:
    plan = make_plan([sliding(10, 1)], ())
    with patch.object(time_operators, "MOST_ANSWERS", 16):
        batches = list(answer_table(plan, pack(plan, [[row(t) for t in range(100)]])))
    sizes = [batch.num_rows for batch in batches]
    assert sum(sizes) == 109
    assert max(sizes) <= 16
    check_window_order(read(plan, batches)[0])


def test_infinities_meet_in_silence() -> None:
    plan = make_plan([sliding(15, 5)], (), ["sum_x", "mean_x", "var_pop"])
    rows = [row(0, x=1.0), row(5, x=math.inf), row(10, x=-math.inf)]
    (found,) = answer(plan, [rows])
    check(found, naive.answers(rows, plan.windows, plan.keys, aggregations(plan)))


def test_the_cost_of_a_finer_slide_is_logarithmic() -> None:
    plan = make_plan([sliding(512, 1)], ())
    sent = pack(plan, [[row(t) for t in range(2000)]])
    with patch.object(LeafSet, "combine", autospec=True, side_effect=LeafSet.combine) as combine:
        (batch,) = answer_table(plan, sent)
    assert batch.num_rows == 2511
    assert combine.call_count <= 9 + 2 * 9  # the levels of the tree, and a way up and down it


def test_an_overflow_that_no_window_has_is_no_error() -> None:
    plan = make_plan([sliding(1, 1)], ("k",), ["sum_n"])
    rows = [row(t, k=key, n=2**63 - 1) for t in range(4) for key in "ab"]
    (found,) = answer(plan, [rows])
    check(found, naive.answers(rows, plan.windows, plan.keys, aggregations(plan)))


@given(PLANS, strategies.rows(min_size=1), strategies.TIMES, st.integers(0, 60))
def test_between_two_watermarks(plan: Plan, rows: list[Row], after: int, length: int) -> None:
    rows = [each for each in rows if naive.places(each, plan.windows, ())]
    if rows:
        assert plan.over_time is not None
        table = lift(plan, rows)
        operator = plan.over_time
        tuples = ShardTuples(plan.schema, plan.layout, plan.operators, table, table.tuples, NEVER_MORE)
        reader, link = operator.reader(table), plan.innermost(tuples)
        combined = (
            each for closing in reader.closing(after, after + length, False) for each in reader.combined(closing)
        )
        answered = (each for windows in combined for each in link.answer(closed_windows(operator, windows)))
        found, _ = read(plan, (rendered(plan.schema, table, each) for each in answered))
        expected = naive.answers(rows, plan.windows, plan.keys, aggregations(plan))
        check(found, {place: each for place, each in expected.items() if after < place[0] <= after + length})


# The pieces


@given(
    strategies.windows(1),
    st.sets(st.tuples(st.integers(0, 2), strategies.TIMES), min_size=1, max_size=20),
    st.integers(-50, 50),
    st.integers(-2, 50),
)
def test_new_windows(windows: list[PaneWindow], leaves: set[tuple[int, int]], first: int, length: int) -> None:
    (window,) = windows
    key, time = (np.array(column) for column in zip(*sorted(leaves), strict=True))
    panes = Leaves(key, time, ())
    ids, leaf = expand(*new_windows(panes, window, (first, first + length)))
    found = key[leaf], ids
    expected = {(k, i) for k, t in leaves for i in naive.windows_holding(window, t) if first <= i <= first + length}
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(expected)


QUERIES = st.lists(st.tuples(st.integers(0, 5), FAR, st.integers(0, 40)), max_size=10)


@given(
    st.lists(st.tuples(st.integers(0, 3), FAR), max_size=30),
    QUERIES | QUERIES.map(lambda queries: [(key, *queries[0][1:]) for key, *_ in queries]),
    st.sampled_from([0, 64]),
)
def test_leaf_index(leaves: list[tuple[int, int]], queries: list[tuple[int, int, int]], few: int) -> None:
    leaves.sort()
    table = np.array(leaves, dtype=np.int64).reshape(-1, 2)
    key, start, length = np.array(queries, dtype=np.int64).reshape(-1, 3).T
    with patch.object(leaf_index, "FEW", few):
        index = LeafIndex(table[:, 0], table[:, 1])
        begin, end = index.ranges(key, start, start + length)
    assert begin.tolist() == [bisect_left(leaves, (k, t)) for k, t, _ in queries]
    for (k, t, size), b, e in zip(queries, begin.tolist(), end.tolist(), strict=True):
        assert leaves[b:e] == [(key, time) for key, time in leaves if key == k and t <= time < t + size]
        inside = sorted({key for key, time in leaves if t <= time < t + size})
        assert index.keys_between(t, t + size).tolist() == inside
        begin_all, end_all = index.ranges(np.array(inside), np.full(len(inside), t), np.full(len(inside), t + size))
        assert [leaves[i:j] for i, j in zip(begin_all, end_all, strict=True)] == [
            [(key, time) for key, time in leaves if key == one and t <= time < t + size] for one in inside
        ]


@given(
    st.lists(st.tuples(st.integers(0, 9), FAR), max_size=40),
    st.lists(st.booleans(), min_size=40, max_size=40),
    FAR,
    st.integers(1, 40),
    st.sampled_from([0, 8]),
)
def test_leaves_of_one_window_in_a_set_that_has_few(
    leaves: list[tuple[int, int]], there: list[bool], start: int, length: int, searched: int
) -> None:
    """Those of the keys that a set with all leaves has in the window."""
    leaves = sorted(set(leaves))
    some = [leaf for leaf, chosen in zip(leaves, there, strict=False) if chosen]
    indexes = [LeafIndex(*np.array(each, dtype=np.int64).reshape(-1, 2).T) for each in (leaves, some)]
    key = indexes[0].keys_between(start, start + length)
    with patch.object(leaf_index, "SEARCHED", searched):
        found = indexes[1].of_window(key, start, start + length)
    held = indexes[1].filled_ranges(key, np.full(len(key), start), np.full(len(key), start + length))
    expected = [[leaf for leaf in some if leaf[0] == each and start <= leaf[1] < start + length] for each in key]
    for ranges in (found, held):
        windows = np.arange(len(key)) if ranges.windows is None else ranges.windows
        assert windows.tolist() == [position for position, each in enumerate(expected) if each]
        assert [some[b:e] for b, e in zip(ranges.begin, ranges.end, strict=True)] == [each for each in expected if each]
        assert ranges.runs.size == sum(map(len, expected))
        assert not ranges.all_leaves or [leaf for each in expected for leaf in each] == some


def test_shards_are_told_apart() -> None:
    plan = make_plan([sliding(10, 10)], shards=[3, 8])
    sent = by_shard(plan, pack(plan, [[row(t, k=str(t)) for t in range(50)]]))
    assert sum(each.rows for each in sent[3]) + sum(each.rows for each in sent[8]) == 50
    assert all(sum(each.rows for each in share) > 10 for share in sent.values())
