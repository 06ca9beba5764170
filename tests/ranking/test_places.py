"""Between which places a group may be, against trying all values of all intervals."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.engine.estimates import APPROXIMATE, EXACT, INCREMENTAL
from muntin.engine.plan import Plan
from muntin.features.ranking.merged import merged, ranked_schema
from muntin.features.ranking.policy import Top
from muntin.features.sampling.policy import Approximation
from tests import strategies
from tests.builders import Step, Stream, answer_table, make_plan, pack, row, sliding
from tests.ranking.test_top import compared, sorted_windows, texts, told, top_of, unranked, window_of
from tests.sampling.test_approximate import policy

POLICY = Approximation.of(4, 0.5, 0.9, None, "l1", True, 0)
WINDOWS = [sliding(10, 5, name="a"), sliding(10, 10, name="b")]
SMALLEST, LARGEST = -1, 5
"""Beyond all bounds that are drawn: what an interval without a bound reaches to."""


@st.composite
def groups(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Groups of a few windows: some are certain, and others have an interval around their value, or half of one."""
    found = []
    for title, window in draw(st.lists(st.sampled_from([("a", 0), ("a", 1), ("b", 0)]), min_size=1, unique=True)):
        start = window * (5 if title == "a" else 10)
        for key in draw(st.lists(st.none() | st.sampled_from("abcdefg"), min_size=1, unique=True)):
            value = draw(st.none() | st.integers(0, 4))
            mode = draw(st.sampled_from([EXACT, INCREMENTAL, APPROXIMATE]))
            low = high = value
            if mode == APPROXIMATE:
                low = draw(st.none() | st.integers(0, value)) if value is not None else None
                high = draw(st.none() | st.integers(value, 4)) if value is not None else None
            place = {"title": title, "id": window, "start": start, "end": start + 10, "k": key}
            found.append({**place, "value": value, "mode": mode, "low": low, "high": high})
    return found


def batch_of(plan: Plan, results: list[dict[str, Any]]) -> pa.RecordBatch:
    """In window order, as a shard tells them."""
    ordered = sorted(results, key=lambda each: (each["end"], each["start"]))
    columns = {
        "window": [{"start": each["start"], "end": each["end"]} for each in ordered],
        "window_id": [each["id"] for each in ordered],
        "window_name": [each["title"] for each in ordered],
        "k": [each["k"] for each in ordered],
        "median_x": [each["value"] for each in ordered],
        "quality": [
            {"mode": each["mode"], "low": {"median_x": each["low"]}, "high": {"median_x": each["high"]}}
            for each in ordered
        ],
    }
    return pa.record_batch([pa.array(columns[each.name], each.type) for each in plan.result_schema], plan.result_schema)


def possible(group: dict[str, Any]) -> list[int | None]:
    """All values that a group may have; None for none."""
    if group["mode"] != APPROXIMATE:
        return [group["value"]]
    if group["value"] is None:
        return [None, *range(SMALLEST, LARGEST + 1)]
    low = SMALLEST if group["low"] is None else group["low"]
    high = LARGEST if group["high"] is None else group["high"]
    return list(range(low, high + 1))


def is_before(left: Any, left_key: Any, right: Any, right_key: Any, descending: bool) -> bool:
    if left is None or right is None:
        order = (left is None) - (right is None)
    else:
        order = -compared(left, right) if descending else compared(left, right)
    return (order or compared(left_key, right_key)) < 0


def naive_places(group: dict[str, Any], others: list[dict[str, Any]], descending: bool) -> tuple[int, int]:
    surely = maybe = 0
    for other in others:
        outcomes = [
            is_before(mine, other["k"], yours, group["k"], descending)
            for mine, yours in product(possible(other), possible(group))
        ]
        surely += all(outcomes)
        maybe += any(outcomes)
    return 1 + surely, 1 + maybe


@settings(max_examples=150)
@given(groups(), st.integers(1, 8), st.booleans(), st.integers(1, 3), st.data())
def test_places_are_those_of_all_values(
    results: list[dict[str, Any]], k: int, descending: bool, shards: int, data: st.DataObject
) -> None:
    top = Top(k, "median_x", descending)
    plan = make_plan(WINDOWS, names=["median_x"], approximation=POLICY, top=top)
    shard = [data.draw(st.integers(0, shards - 1)) for _ in results]
    parts = [[each for each, of in zip(results, shard, strict=True) if of == number] for number in range(shards)]
    found = list(merged(plan, top_of(plan), [batch_of(plan, part) for part in parts]))
    for each in told(plan, found):
        window = [
            other for other in results if (other["title"], other["id"]) == (each["window_name"], each["window_id"])
        ]
        (group,) = (other for other in window if other["k"] == each["k"])
        others = [other for other in window if other is not group]
        first, last = each["quality"]["first_rank"], each["quality"]["last_rank"]
        assert (first, last) == naive_places(group, others, descending)
        assert first <= each["rank"] <= last
    assert sum(batch.num_rows for batch in found) == sum(
        min(k, sum((each["title"], each["id"]) == window for each in results))
        for window in {(each["title"], each["id"]) for each in results}
    )


NUMBERS = ["median_x", "distinct_n", "mean_x", "count"]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    top = Top(
        draw(st.sampled_from([1, 2, 50])), draw(st.sampled_from([*NUMBERS, "mode_w", "max_w"])), draw(st.booleans())
    )
    names = list(dict.fromkeys([draw(st.sampled_from(NUMBERS)), top.by]))
    approximation = draw(st.builds(policy, st.integers(4, 8), st.sampled_from([0.3, 0.9]), incremental=st.booleans()))
    shards = draw(strategies.SHARDS)
    windows = draw(strategies.windows())
    return make_plan(windows, ("k",), names, shards=shards, streaming=True, approximation=approximation, top=top)


STEPS = strategies.steps(strategies.rows(st.integers(0, 30), max_size=30), [1, 10, 30], max_size=5)


@settings(max_examples=40)
@given(plans(), STEPS)
def test_answers_from_samples_are_ranked_with_all_groups(plan: Plan, steps: list[Step]) -> None:
    top = top_of(plan)
    ranking, complete, watermark = Stream(plan), Stream(unranked(plan)), 0
    for step in steps:
        rows = [{**each, "t": each["t"] + watermark} for each in step.rows]
        watermark += step.advance
        sent, everything = (
            [batch for share in stream.told(rows, watermark) for batch in share] for stream in (ranking, complete)
        )
        found, results = told(plan, merged(plan, top_of(plan), sent)), told(plan, everything)
        assert texts(found) == texts(told(plan, merged(plan, top_of(plan), everything)))
        expected = sorted_windows(plan, results)
        places = [(each["quality"].pop("first_rank"), each["quality"].pop("last_rank")) for each in found]
        assert texts(found) == texts(expected)
        for each, (first, last) in zip(found, places, strict=True):
            size = sum(window_of(plan, other) == window_of(plan, each) for other in results)
            assert 1 <= first <= each["rank"] <= last <= size
            modes = {other["quality"]["mode"] for other in results if window_of(plan, other) == window_of(plan, each)}
            if APPROXIMATE not in modes or plan.is_exact(top.by):
                assert first == last == each["rank"]


def test_every_group_counts_where_answers_are_not_certain() -> None:
    plan = make_plan([sliding(10, 10)], names=["median_x"], approximation=POLICY, top=Top(3, "median_x", True))
    rows = [row(t % 20, k=f"key {t % 50}") for t in range(500)]
    assert sum(batch.num_rows for batch in answer_table(plan, pack(plan, [rows]))) == 2 * 50


def test_rows_that_came_too_late_have_no_quality() -> None:
    top = Top(1, "median_x", True)
    plan = make_plan(
        [sliding(10, 10)], names=["median_x"], approximation=POLICY, emit_late=True, streaming=True, top=top
    )
    stream = Stream(plan)
    list(stream.told([row(5), row(6), row(7, k="b", x=3.0)], 20))
    late, ranked = merged(
        plan, top_of(plan), (batch for share in stream.told([row(1), row(25)], 40) for batch in share)
    )
    assert (late.column("rank").to_pylist(), late.column("quality").to_pylist()) == ([None], [None])
    ((rank, quality),) = zip(ranked.column("rank").to_pylist(), ranked.column("quality").to_pylist(), strict=True)
    assert (rank, quality["first_rank"], quality["last_rank"]) == (1, 1, 1)


def test_where_the_places_are() -> None:
    plan = make_plan(WINDOWS, names=["median_x"], approximation=POLICY, emit_late=True, top=Top(1, "median_x", True))
    schema = ranked_schema(plan)
    assert schema.names == [
        "window",
        "window_id",
        "window_name",
        "k",
        "median_x",
        "rank",
        "quality",
        "late",
        "lateness",
    ]
    assert schema.field("quality").type.names[-2:] == ["first_rank", "last_rank"]
