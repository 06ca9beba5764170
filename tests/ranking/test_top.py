"""The k best groups of each window, from several shards, against a full sort of everything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cmp_to_key, partial
from itertools import groupby
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.engine.operators import time as time_operators
from muntin.engine.plan import Plan
from muntin.errors import MuntinError
from muntin.features.drift.feature import Drift
from muntin.features.ranking import merged as merging
from muntin.features.ranking.feature import Ranking
from muntin.features.ranking.merged import merged, ranked_schema
from muntin.features.ranking.order import NEARLY_EQUAL, is_rounded, place_keys
from muntin.features.ranking.policy import Top
from muntin.windows import PaneWindow
from tests import strategies
from tests.builders import CASES, Step, Stream, answer_table, bind, by_shard, make_plan, pack, plain, row, sliding
from tests.naive import Row

ORDERABLE = [name for name in CASES if name not in ("quantiles_n", "top_w")]
KEYS = st.sampled_from([("k",), ("f",), ("k", "f"), ("s",), ("s", "k")])
TOPS = st.builds(Top, st.sampled_from([1, 2, 3, 100]), st.sampled_from(ORDERABLE), st.booleans())
PIECES = st.sampled_from([1, 3, 1 << 20])


@st.composite
def plans(draw: st.DrawFn, streaming: bool = False) -> Plan:
    top = draw(TOPS)
    others = draw(st.lists(st.sampled_from(list(CASES)), max_size=2, unique=True))
    names = list(dict.fromkeys([*others, top.by]))
    return make_plan(
        draw(strategies.windows()), draw(KEYS), names, shards=draw(strategies.SHARDS), streaming=streaming, top=top
    )


def told(plan: Plan, batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Results as they come, with times as integers."""
    found = []
    for batch in batches:
        columns = {name: plain(batch.column(name)) for name in batch.schema.names if name not in ("window", "late")}
        columns["start"], columns["end"] = (plain(edge) for edge in batch.column("window").flatten())
        columns.setdefault("window_name", [plan.windows[0].title] * batch.num_rows)
        found += [{name: column[i] for name, column in columns.items()} for i in range(batch.num_rows)]
    return found


def compared(left: Any, right: Any) -> int:
    """Spark's ascending order of values: null, numbers, NaN."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, dict):
        return next((each for name in left if (each := compared(left[name], right[name]))), 0)
    if isinstance(left, float) and (math.isnan(left) or math.isnan(right)):
        return math.isnan(left) - math.isnan(right)
    return int(left > right) - int(left < right)


def top_of(plan: Plan) -> Top:
    ranking = plan.feature(Ranking)
    assert ranking is not None
    return ranking.top


def unranked(plan: Plan) -> Plan:
    """The same query with all groups of its windows."""
    return replace(plan, features=tuple(each for each in plan.features if not isinstance(each, Ranking | Drift)))


def before(plan: Plan, left: dict[str, Any], right: dict[str, Any]) -> int:
    top = top_of(plan)
    a, b = left[top.by], right[top.by]
    if a is None or b is None:
        by_value = (a is None) - (b is None)
    elif isinstance(a, float) and is_rounded(plan, top) and math.isclose(a, b, rel_tol=NEARLY_EQUAL, abs_tol=1e-13):
        by_value = 0
    else:
        by_value = -compared(a, b) if top.descending else compared(a, b)
    return by_value or next((each for key in plan.keys if (each := compared(left[key], right[key]))), 0)


def window_of(plan: Plan, result: dict[str, Any]) -> tuple[int, int, int]:
    return result["end"], result["start"], [each.title for each in plan.windows].index(result["window_name"])


def sorted_windows(plan: Plan, complete: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A full sort of every window's result, cut to k."""
    top = top_of(plan)
    ranked: list[dict[str, Any]] = []
    for _, groups in groupby(sorted(complete, key=lambda each: window_of(plan, each)), lambda e: window_of(plan, e)):
        best_first = sorted(groups, key=cmp_to_key(partial(before, plan)))
        ranked += [{**each, "rank": rank} for rank, each in enumerate(best_first[: top.k], 1)]
    return ranked


def texts(results: Iterable[dict[str, Any]]) -> list[str]:
    return [repr(sorted(each.items())) for each in results]


@settings(max_examples=80)
@given(plans(), strategies.rows(max_size=25), PIECES, st.sampled_from([1 << 20, 3]), st.data())
def test_any_table_is_a_full_sort(plan: Plan, rows: list[Row], piece: int, most: int, data: st.DataObject) -> None:
    sent = by_shard(plan, pack(plan, [rows]))
    with patch.object(time_operators, "MOST_ANSWERS", most), patch.object(merging, "MOST_ROWS", piece):
        complete = [batch for share in sent.values() for batch in answer_table(unranked(plan), share)]
        cut = [batch for share in sent.values() for batch in answer_table(plan, share)]
        found = list(merged(plan, top_of(plan), data.draw(st.permutations(cut))))
    assert all(batch.schema == ranked_schema(plan) for batch in found)
    assert texts(told(plan, found)) == texts(sorted_windows(plan, told(plan, complete)))


STEPS = strategies.steps(strategies.rows(st.integers(-40, 50), max_size=6), [0, 1, 7, 30, 100], max_size=6)


@settings(max_examples=60)
@given(plans(streaming=True), STEPS)
def test_any_stream_is_a_full_sort(plan: Plan, steps: list[Step]) -> None:
    ranking, complete, watermark = Stream(plan), Stream(unranked(plan)), 0
    for step in [*steps, Step([], advance=400, tasks=1, cold=False, replay=False)]:
        rows = [{**each, "t": each["t"] + watermark} for each in step.rows]
        watermark += step.advance
        cut, everything = (
            [batch for share in stream.told(rows, watermark, step.tasks) for batch in share]
            for stream in (ranking, complete)
        )
        expected = sorted_windows(plan, told(plan, everything))
        assert texts(told(plan, merged(plan, top_of(plan), cut))) == texts(expected)
        assert ranking.total("results") == complete.total("results")


@given(strategies.rows(min_size=1), st.integers(1, 3), st.data())
def test_ties_depend_on_neither_shards_nor_arrival(rows: list[Row], k: int, data: st.DataObject) -> None:
    def ranked(arrival: list[Row], shards: tuple[int, ...]) -> list[str]:
        plan = make_plan([sliding(30, 15)], ("s", "k"), ["count"], shards=shards, top=Top(k, "count", True))
        sent = by_shard(plan, pack(plan, [arrival]))
        batches = [batch for share in sent.values() for batch in answer_table(plan, share)]
        return texts(told(plan, merged(plan, top_of(plan), batches)))

    assert ranked(data.draw(st.permutations(rows)), data.draw(strategies.SHARDS)) == ranked(rows, (0,))


TENTHS = st.integers(-30, 30).map(lambda tenths: tenths / 10)
"""Tenths are rounded in binary, so that their sums depend on the order in which they are added."""


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abcd"), TENTHS), min_size=2, max_size=40),
    st.sampled_from(["sum_x", "mean_x", "var_pop", "stddev_samp"]),
    st.booleans(),
    st.data(),
)
def test_a_replay_does_not_swap_groups_that_only_rounding_sets_apart(
    drawn: list[tuple[int, str, float]], by: str, descending: bool, data: st.DataObject
) -> None:
    """Every group is there twice, so that all of them are near ties; arrival is in any order and in any batches.

    Two more groups say on which scale the values are: where they cancel, what rounding leaves is small beside those.
    """
    plan = make_plan([sliding(20, 5)], ("k",), [by], shards=(7, 3), streaming=True, top=Top(3, by, descending))
    rows = [row(t, k=k + twin, x=x) for t, k, x in drawn for twin in "12"]
    rows += [row(t, k=k, x=x) for t in range(0, 45, 5) for k, x in [("y", 8.0), ("y", 4.0), ("z", -8.0), ("z", -4.0)]]

    def ranked(batches: Iterable[list[Row]]) -> list[tuple[Any, ...]]:
        stream, found = Stream(plan), []
        for rows in batches:
            list(stream.told(rows, 0))
        for share in merged(plan, top_of(plan), [batch for shares in stream.told([], 100) for batch in shares]):
            found += told(plan, [share])
        return [(each["start"], each["rank"], each["k"]) for each in found]

    shuffled = data.draw(st.permutations(rows))
    assert ranked(data.draw(strategies.cuts(shuffled))) == ranked([rows])


def test_values_of_the_data_are_never_near_ties() -> None:
    plan = make_plan([sliding(10, 10)], names=["max_x"], top=Top(2, "max_x", True))
    rows = [row(1, k="a", x=1.0), row(2, k="b", x=math.nextafter(1.0, 2.0))]
    (batch,) = merged(plan, top_of(plan), answer_table(plan, pack(plan, [rows])))
    assert batch.column("k").to_pylist() == ["b", "a"]


def test_a_shard_sends_no_more_than_k_groups_of_a_window() -> None:
    plan = make_plan([sliding(10, 10)], shards=[0, 1], top=Top(3, "count", True))
    rows = [row(t % 20, k=f"key {t % 50}") for t in range(500)]
    for share in by_shard(plan, pack(plan, [rows])).values():
        assert sum(batch.num_rows for batch in answer_table(plan, share)) == 2 * 3


def test_rows_that_came_too_late_have_no_rank() -> None:
    plan = make_plan([sliding(10, 10)], shards=[0, 1], emit_late=True, streaming=True, top=Top(1, "count", True))
    stream = Stream(plan)
    list(stream.told([row(5), row(6), row(7, k="b")], 20))
    batches = [batch for share in stream.told([row(1, n=7), row(25)], 40) for batch in share]
    late, ranked = list(merged(plan, top_of(plan), batches))
    assert (late.column("rank").to_pylist(), late.column("late").to_pylist()[0]["n"]) == ([None], 7)
    assert (ranked.column("rank").to_pylist(), ranked.column("late").to_pylist()) == ([1], [None])
    assert ranked_schema(plan).names == ["window", "window_id", "k", "count", "rank", "late", "lateness"]


@pytest.mark.parametrize("descending", [True, False])
def test_the_smallest_integer_has_its_place(descending: bool) -> None:
    numbers = [-(2**63), -1, 0, 2**63 - 1]
    found, null = place_keys(pa.array(numbers), descending)
    assert np.argsort(found).tolist() == ([3, 2, 1, 0] if descending else [0, 1, 2, 3])
    assert not null.any()


def test_nothing_to_rank() -> None:
    plan = make_plan([sliding(10, 10)], top=Top(1, "count", True))
    assert list(merged(plan, top_of(plan), [])) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, "n", True), "k must be a whole number from 1, got 0"),
        ((-1, "n", True), "k must be .* got -1"),
        ((1.5, "n", True), "k must be .* got 1.5"),
        ((True, "n", True), "k must be .* got True"),
        ((1 << 31, "n", True), "k must be .* got 2147483648"),
        ((1, "", True), "by must be the name of one of the query's aggregates, got ''"),
        ((1, None, True), "by must be .* got None"),
        ((1, "n", "yes"), "descending must be True or False, got 'yes'"),
    ],
)
def test_bad_arguments(arguments: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(MuntinError, match=message):
        Top.of(*arguments)


def test_only_what_has_an_order_is_ranked() -> None:
    named = {name: bind(CASES[name].aggregate) for name in ("count", "quantiles_n", "top_w", "min_w")}
    Top(1, "min_w", True).check_aggregate(named)
    with pytest.raises(MuntinError, match=r"top\(by='quantiles_n'\) is of type array<double>.*rank by a number"):
        Top(1, "quantiles_n", True).check_aggregate(named)
    with pytest.raises(MuntinError, match=r"top\(by='coun'\) is not one of the query's aggregates.*'count'"):
        Top(1, "coun", True).check_aggregate(named)


@pytest.mark.parametrize("model", ["session", "count", "slide_by_tuple", "slide_by_time", "delta"])
@settings(max_examples=5)
@given(st.data())
def test_only_windows_over_time_have_groups(model: str, data: st.DataObject) -> None:
    window = data.draw(strategies.MODELS[model])
    with pytest.raises(MuntinError, match=r"belongs to a single key; use W.tumbling, W.sliding or W.cumulative"):
        Top(1, "count", True).check_groups([sliding(10, 5), window], ["k"])


@given(strategies.windows())
def test_groups_need_keys(windows: list[PaneWindow]) -> None:
    Top(1, "count", True).check_groups(windows, ["k"])
    with pytest.raises(MuntinError, match="the query has none; name the key with by="):
        Top(1, "count", True).check_groups(windows, [])
