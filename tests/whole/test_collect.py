"""The values of a window in time order, and at one time in an order that the values fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import aggregates as A
from muntin import windows as W
from muntin.engine.plan import Plan
from muntin.features.compression.policy import Compression
from tests import builders, naive, naive_models, strategies
from tests.builders import NEVER_COMPRESSED, Stream, answer, bind, row, sliding, tiny, us
from tests.naive import Row
from tests.stages.test_models import BEHIND, LIMITS

TYPES: dict[str, pa.DataType] = builders.TYPES | strategies.GROWING | {"many": pa.list_(pa.int64())}
WINDOWS = [
    sliding(20, 20),
    sliding(20, 5),
    W.session(us(10)),
    W.count(3),
    W.slide_by_tuple(us(10), 2),
    W.slide_by_time(4, us(10)),
]
COMPRESSIONS = st.sampled_from(
    [NEVER_COMPRESSED, Compression(0, "snappy"), Compression(0, "zstd", 1), Compression(7, "lz4")]
)


def plan_of(
    columns: Sequence[str],
    windows: Sequence[W.Window] = (sliding(20, 5),),
    compression: Compression = NEVER_COMPRESSED,
    **named: A.Aggregate,
) -> Plan:
    """A query that collects columns; nothing else is read, so they are the tie-break."""
    aggregates = {column: A.collect(column) for column in columns} | named
    return Plan.make(
        time="t",
        windows=windows,
        types=TYPES,
        keys=("k",),
        aggregates={name: bind(each, TYPES) for name, each in aggregates.items()},
        shards=(0, 1),
        streaming=True,
        options=[compression],
    )


def one_window(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    (result,) = [result for share in answer(plan, [rows]) for result in share]
    return result[1]


def full(row: Row) -> Row:
    return {**row, "d": None, "e": None, "many": None}


def test_time_order() -> None:
    plan = plan_of(["w"], [sliding(100, 100)])
    rows = [full(row(t, w=w)) for t, w in ((5, "e"), (1, "z"), (9, "a"), (3, None), (2, "y"))]
    assert one_window(plan, rows) == {"w": ["z", "y", "e", "a"]}


def test_equal_times_go_by_the_columns_in_the_order_of_the_query() -> None:
    rows = [full(row(5, n=n, w=w)) for n, w in ((2, "a"), (1, "z"), (1, "b"))]
    assert one_window(plan_of(["n", "w"], [sliding(100, 100)]), rows) == {"n": [1, 1, 2], "w": ["b", "z", "a"]}
    assert one_window(plan_of(["w", "n"], [sliding(100, 100)]), rows) == {"w": ["a", "b", "z"], "n": [2, 1, 1]}


def test_a_filter_leaves_the_order_as_it_is() -> None:
    plan = plan_of([], [sliding(100, 100)], kept=A.collect("n", where="kept"))
    rows = [full(row(t, n=n, kept=n != 3)) for t, n in ((4, 1), (2, 3), (2, 2), (1, 5), (4, 0))]
    assert one_window(plan, rows) == {"kept": [5, 2, 0, 1]}


@settings(max_examples=30)
@given(strategies.rows(st.integers(0, 40), max_size=25))
def test_any_table_is_naive(rows: list[Row]) -> None:
    columns = ["x", "n"]
    rows = [full(each) for each in rows]

    def collected(column: str) -> naive.Aggregation:
        return lambda held: naive.column_values(naive_models.in_order(held, columns), column)

    plan = plan_of(columns)
    expected = naive.answers(rows, plan.windows, plan.keys, {column: collected(column) for column in columns})
    builders.check([result for share in answer(plan, [rows]) for result in share], expected)


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.label)
def test_neither_arrival_nor_batches_nor_compression_matter(window: W.Window) -> None:
    """To the bit: zeros keep their sign, and nested values their place."""
    nested = st.none() | st.lists(st.none() | st.integers(0, 2), max_size=2)
    many_ties = strategies.rows(st.integers(0, 6), max_size=15).flatmap(
        lambda rows: st.lists(nested, min_size=len(rows), max_size=len(rows)).map(
            lambda lists: [{**full(each), "k": "a", "many": many} for each, many in zip(rows, lists, strict=True)]
        )
    )
    columns = st.sampled_from([["x"], ["f", "n"], ["many"], ["s"], ["w", "s", "many"]])

    @settings(max_examples=15)
    @given(many_ties, columns, COMPRESSIONS, LIMITS, st.data())
    def matter(
        rows: list[Row],
        columns: list[str],
        compression: Compression,
        limits: tuple[int, int, int],
        data: st.DataObject,
    ) -> None:
        def told(plan: Plan, parts: Sequence[Sequence[Row]]) -> list[str]:
            stream = Stream(plan)
            for part in parts:
                stream.batch(part, 0)
            return sorted(repr(each) for share in stream.batch([], BEHIND)[0] for each in share)

        plain = told(plan_of(columns, [window]), [rows])
        with tiny(*limits):
            parts = data.draw(strategies.cuts(data.draw(st.permutations(rows))))
            assert told(plan_of(columns, [window], compression), parts) == plain

    matter()
