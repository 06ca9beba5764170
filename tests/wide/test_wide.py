"""Wide rows against a join of the results of one query per window, and the queries that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import testing as streams
from muntin import windows as W
from muntin.engine.features import Option
from muntin.engine.functions import AppliedFunction
from muntin.engine.operators import time as time_operators
from muntin.engine.plan import Draft, Plan
from muntin.features.ranking.policy import Top
from muntin.features.sampling.policy import Approximation
from muntin.features.updates.policy import Updates
from muntin.features.wide.names import compact, ends, suffix
from muntin.features.wide.policy import Wide
from muntin.features.wide.rows import WideRows
from muntin.features.workers.policy import Parallel
from muntin.holistic.applied import Applied
from muntin.query.picture import query_html
from muntin.testing.rows import Rows
from tests import naive, strategies
from tests.builders import (
    CASES,
    TIME,
    TYPES,
    Stream,
    answer_table,
    bind,
    by_shard,
    make_plan,
    pack,
    plain,
    plan_of,
    read,
    row,
    sliding,
    us,
)
from tests.naive import Row

Wides = dict[tuple[Any, ...], dict[str, Any]]


@st.composite
def common_ends(draw: st.DrawFn) -> list[W.PaneWindow]:
    """Windows that end at the same instants, each with a name."""
    slide, at = draw(st.integers(1, 6)), draw(st.integers(-9, 9))
    sizes = draw(st.lists(st.integers(1, 15), min_size=1, max_size=3))
    windows: list[W.PaneWindow] = [sliding(size, slide, at - size, f"w{i}") for i, size in enumerate(sizes)]
    if draw(st.booleans()):
        windows.append(W.cumulative(us(3 * slide), us(slide), offset=us(at), name="so_far"))
    return windows


NAMES = st.lists(st.sampled_from(["count", "sum_x", "median_x", "composed"]), min_size=1, max_size=3, unique=True)
NAMES = NAMES.map(lambda names: [name for name in names if name in CASES] or ["count"])


def wide_of(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Wides:
    """The wide rows of a shard, in order of their ends, by end and key."""
    finish = WideRows(plan.schema)
    found: Wides = {}
    last = -(1 << 62)
    for batch in finish.run(batches):
        assert batch.schema == finish.schema
        columns = {name: plain(batch.column(name)) for name in batch.schema.names}
        for i in range(batch.num_rows):
            values = {name: column[i] for name, column in columns.items()}
            end = values.pop("as_of")
            assert end >= last
            last = end
            place = (end, *(naive.comparable(values.pop(key)) for key in plan.keys))
            assert place not in found
            found[place] = values
    return found


def joined(results: dict[str, list[tuple[Any, dict[str, Any]]]], names: Sequence[str]) -> Wides:
    """A full outer join, by end and key, of the results of one query per window."""
    found: Wides = {}
    empty = {f"{name}_{title}": None for title in results for name in names}
    for title, rows in results.items():
        for (end, _, _, _, key), values in rows:
            of_row = found.setdefault((end, *key), dict(empty))
            of_row |= {f"{name}_{title}": values[name] for name in names}
    return found


def check_same(found: Wides, expected: Wides) -> None:
    assert found.keys() == expected.keys()
    for place, values in expected.items():
        assert found[place].keys() == values.keys()
        for name, value in values.items():
            assert naive.same(found[place][name], value), (place, name, found[place][name], value)


@settings(max_examples=60)
@given(common_ends(), strategies.KEYS, NAMES, strategies.rows(), st.sampled_from([1 << 20, 5, 1]), strategies.SHARDS)
def test_a_table_is_the_join_of_tables(
    windows: list[W.PaneWindow],
    keys: tuple[str, ...],
    names: list[str],
    rows: list[Row],
    most: int,
    shards: tuple[int, ...],
) -> None:
    def of_plan(plan: Plan) -> list[tuple[Plan, list[pa.RecordBatch]]]:
        shares = by_shard(plan, pack(plan, [rows])).items()
        return [(plan, list(answer_table(plan_of(plan, shard), share))) for shard, share in shares]

    with patch.object(time_operators, "MOST_ANSWERS", most):
        found: Wides = {}
        for plan, batches in of_plan(make_plan(windows, keys, names, shards=shards)):
            of_shard = wide_of(plan, batches)
            assert not of_shard.keys() & found.keys()
            found |= of_shard
    alone = {}
    for window in windows:
        shares = of_plan(make_plan([window], keys, names, shards=shards))
        alone[window.title] = [row for plan, batches in shares for row in read(plan, batches)[0]]
    check_same(found, joined(alone, names))


@settings(max_examples=40)
@given(
    common_ends(),
    st.sampled_from([(), ("k",), ("s", "k")]),
    NAMES,
    st.lists(st.tuples(strategies.rows(st.integers(0, 80), max_size=8), st.integers(0, 25)), max_size=6),
)
def test_a_stream_is_the_join_of_streams(
    windows: list[W.PaneWindow], keys: tuple[str, ...], names: list[str], batches: list[tuple[list[Row], int]]
) -> None:
    """Batch by batch: late rows count in the same windows, and all windows of an end are in one batch."""
    together = Stream(make_plan(windows, keys, names, shards=(7, 3), streaming=True))
    alone = {
        window.title: Stream(make_plan([window], keys, names, shards=(7, 3), streaming=True)) for window in windows
    }
    watermark, seen = 0, set[Any]()
    for rows, advance in batches:
        found: Wides = {}
        for of_shard in together.told(rows, watermark):
            found |= wide_of(together.plan, of_shard)
        results = {
            title: [each for shard in stream.batch(rows, watermark)[0] for each in shard]
            for title, stream in alone.items()
        }
        check_same(found, joined(results, names))
        assert not found.keys() & seen
        seen |= found.keys()
        watermark += advance


def test_a_window_without_rows_is_null_and_ends_are_exclusive() -> None:
    plan = make_plan([sliding(10, 10, name="short"), sliding(20, 10, name="long")], names=["count"])
    found = wide_of(plan, answer_table(plan, pack(plan, [[row(9), row(10), row(10, "b")]])))
    assert found == {
        (10, "a"): {"count_short": 1, "count_long": 1},
        (20, "a"): {"count_short": 1, "count_long": 2},
        (20, "b"): {"count_short": 1, "count_long": 1},
        (30, "a"): {"count_short": None, "count_long": 1},
        (30, "b"): {"count_short": None, "count_long": 1},
    }


def test_quality_has_a_column_per_window() -> None:
    plan = make_plan(
        [sliding(10, 10, name="short"), sliding(20, 10, name="long")],
        names=["median_x"],
        options=[Approximation.of(5, 0.5, 0.95, None, "l1", True, 0, None)],
    )
    found = wide_of(plan, answer_table(plan, pack(plan, [[row(i % 20) for i in range(100)]])))
    assert {*found[20, "a"]} == {"median_x_short", "median_x_long", "quality_short", "quality_long"}
    assert found[20, "a"]["quality_long"]["size"] == 100


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (W.tumbling("1 hour"), "1h"),
        (W.sliding("1 day", "1 hour"), "24h"),
        (W.sliding("7 days", "1 hour"), "7d"),
        (W.sliding("90 minutes", "30 minutes"), "90min"),
        (W.sliding("36 hours", "1 hour"), "36h"),
        (W.tumbling("1500 ms"), "1500ms"),
        (W.sliding("7 days", "1 hour", name="week"), "week"),
        (W.cumulative("1 day", "1 hour"), "24h_so_far"),
        (W.calendar("7 days", "1 day"), "7d"),
        (W.calendar("1 month"), "1month"),
        (W.calendar("1 quarter", "1 month"), "3months"),
    ],
)
def test_suffixes(window: W.Window, expected: str) -> None:
    assert suffix(window) == expected


def test_a_length_in_its_largest_unit() -> None:
    assert [compact(length) for length in (1, 1_000, 1_000_000, 61_000_000)] == ["1us", "1ms", "1s", "61s"]


@given(strategies.windows(max_size=2))
def test_windows_share_their_ends_as_they_say(windows: list[W.PaneWindow]) -> None:
    """Against the ends themselves, over more than two periods of both."""
    first, last = windows[0], windows[-1]
    within = [set(np.asarray(window.end(np.arange(-400, 400))).tolist()) for window in (first, last)]
    middle = [{end for end in of_window if -300 <= end <= 300} for of_window in within]
    assert (ends(first) == ends(last)) == (middle[0] == middle[1])


def test_calendars_share_their_ends() -> None:
    day, week = W.calendar("1 day"), W.calendar("7 days", "1 day")
    assert ends(day) == ends(week)
    assert ends(W.calendar("1 month")) == ends(W.calendar("1 year", "1 month"))
    assert ends(day) != ends(W.calendar("1 day", zone="Europe/Berlin"))
    assert ends(W.calendar("1 month")) != ends(W.calendar("1 year"))


def draft(
    *windows: W.Window,
    names: Sequence[str] = ("count",),
    options: Sequence[Option] = (),
    function: bool = False,
    late: bool = False,
    **named: A.Aggregate,
) -> Draft:
    aggregates = {name: bind(CASES[name].aggregate) for name in names} | {
        name: bind(aggregate) for name, aggregate in named.items()
    }
    applied = Applied(lambda table: table, pa.schema([("y", pa.int64())]), ("n",), "arrow", ("n",), False)
    return Draft(
        "t",
        windows or (W.sliding("1 hour", "1 hour"), W.sliding("1 day", "1 hour")),
        TYPES,
        ("k",),
        {} if function else aggregates,
        (0,),
        late_row=pa.struct([("t", TIME)]) if late else None,
        function=AppliedFunction(applied) if function else None,
        options=(*options, Wide()),
    )


def test_a_query_of_a_test_has_wide_rows() -> None:
    def query(rows: Any) -> muntin.Query:
        windows = [W.sliding(size, "5 minutes") for size in ("5 minutes", "15 minutes")]
        return muntin.over(rows, *windows, time="ts", watermark="0 seconds", by="k").agg(n=A.count()).wide()

    stream = streams.Stream(query, "ts timestamp, k string", shards=2)
    stream.batch([("2024-05-01 12:01", "b"), ("2024-05-01 12:04", "a"), ("2024-05-01 12:07", "a")])
    step = stream.watermark("2024-05-01 13:00")
    found = [(row["as_of"].minute, row["k"], row["n_5min"], row["n_15min"]) for row in stream.results]
    assert found == [
        (5, "a", 1, 1),
        (5, "b", 1, 1),
        (10, "a", 1, 2),
        (10, "b", None, 1),
        (15, "a", None, 2),
        (15, "b", None, 1),
        (20, "a", None, 1),
    ]
    assert step.state_bytes == 0
    shown = query_html(query(Rows(dict(TYPES) | {"ts": TIME})))
    assert "_5min, _15min" in shown


HOURS = W.sliding("1 hour", "1 hour")
REFUSED: list[tuple[Callable[[], Draft], str]] = [
    (lambda: draft(HOURS, W.count(3)), "end with rows of their key"),
    (lambda: draft(W.session("1 hour")), "end with rows of their key"),
    (lambda: draft(HOURS, W.tumbling("1 day")), "give all windows the same slide and offset, such as W.sliding"),
    (lambda: draft(HOURS, W.sliding("1 day", "1 hour", offset="1 minute")), "end at different times"),
    (lambda: draft(HOURS, W.calendar("1 month")), "end at different times"),
    (lambda: draft(W.tumbling("1 hour", name="a"), HOURS), ""),
    (lambda: draft(HOURS, W.tumbling("1 hour", name="1h")), "suffix '1h'"),
    (lambda: draft(function=True), "any number of rows"),
    (lambda: draft(late=True), "rows without a window"),
    (lambda: draft(options=[Updates(on_change=True)]), "as they change"),
    (lambda: draft(options=[Top.of(3, "count", True)]), "top\\(\\) keeps other groups"),
    (lambda: draft(options=[Parallel.of("keyed", 2, None, False, None, False)]), "parallel\\(\\) spreads"),
    (
        lambda: draft(HOURS, W.sliding("1 day", "1 hour", name="b_1h"), names=(), a_b=A.count(), a=A.count()),
        "called 'a_b_1h'",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_has_no_wide_rows_is_refused(make: Callable[[], Draft], message: str) -> None:
    if not message:
        Wide().check(make(), complete=True)
        return
    with pytest.raises(MuntinError, match=message):
        Wide().check(make(), complete=True)
