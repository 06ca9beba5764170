from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.ingest import ingest
from muntin.engine.map_stage import shard_of, split
from muntin.engine.operators.operator import ALWAYS
from muntin.engine.plan import Plan
from muntin.panes import table as tables
from muntin.panes.table import PaneTable, compacted, composite_order, merge, sort_order
from muntin.panes.watermarks import Watermarks
from tests import strategies
from tests.builders import (
    CASES,
    check_panes,
    check_table,
    lift,
    make_plan,
    naive_pane_values,
    pane_values,
    row,
    sliding,
)
from tests.naive import Row

NAMES = st.lists(st.sampled_from(list(CASES)), min_size=1, max_size=4, unique=True)
PLANS = st.builds(make_plan, strategies.windows(2), strategies.KEYS, NAMES)
ROWS = strategies.rows(min_size=1)


@st.composite
def merged(draw: st.DrawFn, plan: Plan, parts: Sequence[PaneTable]) -> PaneTable:
    """The tables merged in a random order and grouping."""
    remaining = draw(st.permutations(parts))
    while len(remaining) > 1:
        begin = draw(st.integers(0, len(remaining) - 2))
        end = draw(st.integers(begin + 2, len(remaining)))
        remaining[begin:end] = [merge(plan.layout, remaining[begin:end])]
    return remaining[0]


@given(PLANS, ROWS)
def test_lift_is_naive(plan: Plan, rows: list[Row]) -> None:
    table = lift(plan, rows)
    check_table(plan, table)
    check_panes(pane_values(plan, table), naive_pane_values(plan, rows))


@given(st.data(), PLANS, ROWS)
def test_merge_in_any_grouping_and_order(data: st.DataObject, plan: Plan, rows: list[Row]) -> None:
    parts = [lift(plan, part) for part in data.draw(strategies.cuts(rows)) if part]
    table = data.draw(merged(plan, parts))
    check_table(plan, table)
    check_panes(pane_values(plan, table), naive_pane_values(plan, rows))


def test_merge_of_empty_tables() -> None:
    plan = make_plan([sliding(10, 5)], names=["max_w", "composed"])
    full = lift(plan, [row(1), row(2)])
    empty = full.filter([np.zeros(len(leaves), bool) for leaves in full.leaves])
    assert merge(plan.layout, [empty, empty]).size == 0
    assert merge(plan.layout, [empty, full]).size == full.size
    assert merge(plan.layout, [full, empty]) is full


@given(PLANS, ROWS, st.integers(1, 5))
def test_split_loses_nothing(plan: Plan, rows: list[Row], count: int) -> None:
    table = lift(plan, rows)
    meaning: dict[Any, dict[str, list[Any]]] = {}
    for index, share in split(table, count, plan.keys).items():
        check_table(plan, share)
        assert share.size
        columns = [share.keys.column(key) for key in plan.keys]
        assert set(shard_of(columns, share.keys.num_rows, count).tolist()) == {index}
        panes = pane_values(plan, share)
        assert not panes.keys() & meaning.keys()
        meaning |= panes
    check_panes(meaning, naive_pane_values(plan, rows))


RANKED = ("min_w", "max_w", "last_w", "argmax_x_by_w", "min_count")


@given(ROWS, st.sets(st.sampled_from(RANKED), min_size=1, max_size=2), st.sets(st.integers(0, 19), max_size=5))
def test_compacted_keeps_the_meaning(rows: list[Row], names: set[str], few: set[int]) -> None:
    plan = make_plan([sliding(10, 5)], ("k",), sorted(names))
    # A key and a word of its own for every row, so that most of them go with the panes.
    rows = [{**row, "k": f"{row['k']}{i}", "w": row["w"] and f"{row['w']}{i}"} for i, row in enumerate(rows)]
    table = lift(plan, rows)
    kept = table.filter([np.isin(leaves.key, list(few)) for leaves in table.leaves])
    with patch.object(tables, "_SLACK", 0):
        small = compacted(plan.layout, kept)
    check_table(plan, small)
    check_panes(pane_values(plan, small), pane_values(plan, kept))
    assert small.keys.num_rows <= 2 * len(np.unique(kept.panes.key))
    assert all(len(dictionary) <= 2 * kept.size for dictionary in small.dictionaries.values())


def test_compacted_leaves_small_tables_alone() -> None:
    plan = make_plan([sliding(10, 10)], names=["max_w"])
    table = lift(plan, [row(t, k=str(t)) for t in range(100)])
    kept = table.filter([leaves.time > 80 for leaves in table.leaves])
    assert compacted(plan.layout, kept).keys is table.keys


def test_filter_shares_what_it_keeps_whole() -> None:
    plan = make_plan([sliding(10, 10)])
    table = lift(plan, [row(1), row(11)])
    assert table.filter([np.ones(2, bool)]).panes is table.panes
    assert table.filter([np.array([False, True])]).panes.time.tolist() == [10]


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(-(2**61), 2**61) | st.integers(-5, 5), st.integers(0, 3)), min_size=1
    )
)
def test_sort_order(drawn: list[tuple[int, int, int]]) -> None:
    key, time, tie = (np.array(column, dtype=np.int64) for column in zip(*drawn, strict=True))
    pairs = list(zip(key.tolist(), time.tolist(), strict=True))
    assert [pairs[i] for i in sort_order(key, time)] == sorted(pairs)
    assert [drawn[i] for i in sort_order(key, time, (tie,))] == sorted(drawn)


def test_composite_order_only_where_it_fits() -> None:
    key = np.array([0, 1])
    near, far = np.array([5, 3]), np.array([-(2**61), 2**61])
    composite = composite_order(key, near, near)
    assert composite is not None
    assert composite[0] < composite[1]
    assert composite_order(key, far, far) is None


def test_nbytes_counts_keys_leaves_and_dictionaries() -> None:
    plan = make_plan([sliding(10, 10)], names=["max_w"])
    table = lift(plan, [row(1, w="x" * 1000)])
    assert table.panes.nbytes <= table.nbytes
    assert table.nbytes > 1000


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_one_row(keys: tuple[str, ...]) -> None:
    plan = make_plan([sliding(10, 5)], keys)
    table = lift(plan, [row(-1)])
    assert table.panes.time.tolist() == [-5]
    assert table.keys.num_rows == 1
    assert isinstance(table.keys, pa.RecordBatch)


# Sets that are written anew as a whole


def sessions(plan: Plan, rows: list[Row]) -> PaneTable:
    """The open sessions of rows, as if nothing had been there before."""
    taken = ingest(plan, None, lift(plan, rows), Watermarks.at(ALWAYS), Watermarks.at(ALWAYS))
    assert taken is not None
    return taken.table


def session_counts(plan: Plan, table: PaneTable) -> dict[Any, dict[int, int]]:
    (leaves,) = plan.operators[0].own(table)
    keys = table.keys.column("k").to_pylist()
    counts: dict[Any, dict[int, int]] = {}
    for key, time, rows in zip(leaves.key.tolist(), leaves.time.tolist(), leaves.state[0].tolist(), strict=True):
        counts.setdefault(keys[key], {})[time] = rows
    return counts


@given(st.lists(strategies.rows(max_size=5), min_size=1, max_size=4))
def test_with_overlay_the_last_table_that_has_a_key_counts(batches: list[list[Row]]) -> None:
    plan = make_plan([W.session("3 us")], ("k",), ["max_w", "sum_n"])
    tables = [sessions(plan, rows) for rows in batches if rows]
    if tables:
        expected: dict[Any, dict[int, int]] = {}
        for table in tables:
            expected |= session_counts(plan, table)
        whole = merge(plan.layout, tables, overlay=True)
        check_table(plan, whole)
        assert session_counts(plan, whole) == expected


def test_without_overlay_leaves_of_a_key_are_put_together() -> None:
    plan = make_plan([W.session("3 us")], ("k",))
    old, new = sessions(plan, [row(0), row(0), row(9)]), sessions(plan, [row(0), row(5, k="b")])
    assert session_counts(plan, merge(plan.layout, [old, new])) == {"a": {0: 3, 9: 1}, "b": {5: 1}}
    assert session_counts(plan, merge(plan.layout, [old, new], overlay=True)) == {"a": {0: 1}, "b": {5: 1}}


def test_overlay_leaves_other_sets_alone() -> None:
    plan = make_plan([sliding(10, 10)])
    parts = [lift(plan, [row(1)]), lift(plan, [row(2)])]
    assert merge(plan.layout, parts, overlay=True).panes.state[0].tolist() == [2]


@given(strategies.rows(min_size=1), st.sets(st.integers(0, 19)))
def test_compacted_without_slack_keeps_only_keys_in_use(rows: list[Row], few: set[int]) -> None:
    plan = make_plan([W.count(2)], ("k",))
    table = lift(plan, [{**row, "k": f"{row['k']}{i % 7}"} for i, row in enumerate(rows)])
    assert table.tuples is not None
    kept = table.only(tuples=np.isin(np.arange(len(rows)), list(few)))
    small = compacted(plan.layout, kept, slack=0)
    assert small.tuples is not None
    assert kept.tuples is not None
    assert small.used_keys().all()
    before, after = (
        [table.keys.column("k")[code].as_py() for code in tuples.key.tolist()]
        for table, tuples in ((kept, kept.tuples), (small, small.tuples))
    )
    assert before == after
    assert small.tuples.time.tolist() == kept.tuples.time.tolist()


def test_compacted_without_slack_leaves_a_table_without_unused_keys_alone() -> None:
    plan = make_plan([W.count(2)], ("k",))
    table = lift(plan, [row(1), row(2, k="b")])
    assert compacted(plan.layout, table, slack=0).keys is table.keys


@pytest.mark.parametrize("names", [["max_w"], ["count", "first_w", "composed"]])
def test_merge_of_tables_that_hold_only_tuples(names: list[str]) -> None:
    # None of them has a dictionary yet: the words are still in the tuples.
    plan = make_plan([W.count(2)], ("k",), names)
    merged = merge(plan.layout, [lift(plan, [row(1, w="b")]), lift(plan, [row(2, w="a")])])
    assert merged.tuples is not None
    assert merged.tuples.time.tolist() == [1, 2]
    assert merged.size == 2
