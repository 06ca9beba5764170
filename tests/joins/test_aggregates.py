"""Aggregates over a join, multiplied and over the pairs: what a nested loop says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.engine.plan import Plan
from muntin.joins import pairs, product
from muntin.joins.both_sides import BothSides
from muntin.joins.multiplied import multiplied, why_not
from muntin.joins.names import SIDE_FLAGS, TIME
from muntin.joins.pairs import OverPairs
from tests import builders, naive, strategies
from tests.builders import CASES, Step, Stream, answer, answer_table, by_shard, check, pack, sliding, tiny
from tests.joins import union
from tests.joins.test_product import CLOSING, LIMITS, PIECES, STEPS
from tests.naive import Answers, Row

BOTH = {"__muntin_of_left": SIDE_FLAGS["left"], "__muntin_of_right": SIDE_FLAGS["right"]}
ONE_SIDED = {name: case for name, case in CASES.items() if why_not(case.aggregate) is None}
"""All of left's columns; a condition is left's, too."""


def bound(name: str, wanted: bool) -> A.Bound:
    """Multiplied by all right tuples, or by those that are wanted."""
    aggregate = CASES[name].aggregate
    partners = "wanted" if wanted else SIDE_FLAGS["right"]
    return multiplied(aggregate, union.TYPES, aggregate.where or SIDE_FLAGS["left"], partners, builders.TIME)


def multiplied_plan(window: W.Window, on: tuple[str, ...], **others: Any) -> Plan:
    aggregates = {name: bound(name, wanted=False) for name in ONE_SIDED}
    aggregates |= {f"{name} if wanted": bound(name, wanted=True) for name in ONE_SIDED}
    aggregates |= {name: A.count().bind({}, mark, builders.TIME) for name, mark in BOTH.items()}
    return Plan.make(
        time=TIME,
        windows=(window,),
        types=union.TYPES,
        keys=on,
        aggregates=aggregates,
        options=[BothSides(tuple(BOTH))],
        **others,
    )


def wanted(of: naive.Aggregation) -> naive.Aggregation:
    return naive.where("wanted", of)


EXPECTED = union.over_pairs(
    {name: case.naive for name, case in ONE_SIDED.items()}
    | {f"{name} if wanted": wanted(case.naive) for name, case in ONE_SIDED.items()}
)


@settings(max_examples=40)
@given(union.WINDOWS, union.ON, strategies.SHARDS, union.sides(), LIMITS, st.data())
def test_multiplied_is_what_a_nested_loop_says(
    windows: list[W.Window],
    on: tuple[str, ...],
    shards: tuple[int, ...],
    rows: list[Row],
    limits: tuple[int, int, int],
    data: st.DataObject,
) -> None:
    plan = multiplied_plan(windows[0], on, shards=shards)
    rows = union.with_keys(rows, on)
    with tiny(*limits):
        shares = list(answer(plan, data.draw(strategies.cuts(rows))))
    check([each for share in shares for each in share], union.joined(naive.answers(rows, windows, on, EXPECTED)))


@settings(max_examples=20)
@given(union.WINDOWS, union.ON, strategies.SHARDS, STEPS, LIMITS)
def test_multiplied_on_a_stream(
    windows: list[W.Window],
    on: tuple[str, ...],
    shards: tuple[int, ...],
    steps: list[Step],
    limits: tuple[int, int, int],
) -> None:
    plan = multiplied_plan(windows[0], on, shards=shards, streaming=True)
    stream, oracle = Stream(plan), naive.Stream(windows, on, EXPECTED)
    with tiny(*limits):
        for step in [*steps, CLOSING]:
            rows = [{**row, "t": row["t"] + oracle.watermark} for row in union.with_keys(step.rows, on)]
            rows = [{**row, TIME: row["t"]} for row in rows]
            watermark = oracle.watermark + step.advance
            found, _ = stream.run(step, rows, watermark)
            expected = union.joined(oracle.batch(rows, watermark)[0])
            check([each for share in found for each in share], expected)
            assert stream.total("results") == len(expected)


def test_which_aggregates_need_the_pairs() -> None:
    needing = {name for name, case in CASES.items() if why_not(case.aggregate) is not None}
    assert needing == {name for name in CASES if name.startswith(("first", "last", "arg", "composed", "spread"))}
    assert why_not(A.collect("x")) is not None


# Over the pairs

PAIR_CASES = {
    **CASES,
    "argmin_w_by_m": builders.Case(A.argmin("w", "m"), naive.arg("w", "m", largest=False)),
    "argmax_v_by_x": builders.Case(A.argmax("v", "x"), naive.arg("v", "x", largest=True)),
    "sum_m_where": builders.Case(A.sum("m", where="wanted"), naive.where("wanted", naive.total("m"))),
    "distinct_v": builders.Case(A.count_distinct("v"), naive.count_distinct("v")),
}
NAIVE_PAIRS = union.over_pairs({name: case.naive for name, case in PAIR_CASES.items()})


def finish(window: W.PaneWindow, on: tuple[str, ...], late_row: pa.DataType | None = None) -> OverPairs:
    bound = {n: case.aggregate.bind(union.TYPES, case.aggregate.where, builders.TIME) for n, case in PAIR_CASES.items()}
    return OverPairs.of(window, on, union.pair_types(on), bound, late_row)


def cut(size: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of a size, each of as many as it takes."""
    for batch in batches:
        for begin in range(0, batch.num_rows, size):
            yield batch.slice(begin, size)


def answers_of(
    over: OverPairs, title: str, batches: Iterable[pa.RecordBatch], names: Iterable[str] = PAIR_CASES
) -> Answers:
    names = list(names)
    found: Answers = {}
    for batch in batches:
        assert batch.schema == over.schema
        columns = {name: builders.plain(batch.column(name)) for name in batch.schema.names[1:]}
        start, end = (builders.plain(part) for part in batch.column("window").flatten())
        for i in range(batch.num_rows):
            key = tuple(naive.comparable(columns[name][i]) for name in over.plan.keys[1:])
            place = (end[i], start[i], title, columns["window_id"][i], key)
            assert place not in found, "a window of a key is told once"
            found[place] = {name: columns[name][i] for name in names}
    return found


@settings(max_examples=30)
@given(union.WINDOWS, union.ON, union.sides(max_size=9), PIECES, st.sampled_from([1, 3, 1 << 16]), LIMITS)
def test_over_pairs_is_what_a_nested_loop_says(
    windows: list[W.PaneWindow],
    on: tuple[str, ...],
    rows: list[Row],
    pieces: int,
    size: int,
    limits: tuple[int, int, int],
) -> None:
    (window,) = windows
    rows = union.with_keys(rows, on)
    plan, over = union.pair_plan(window, on, shards=(0,)), finish(window, on)
    with tiny(*limits), patch.object(product, "MOST_PAIRS", pieces), patch.object(pairs, "_MOST_PARTS", 2):
        (share,) = by_shard(plan, pack(plan, [rows])).values()
        found = answers_of(over, window.title, over.run(cut(size, answer_table(plan, share))))
    expected = union.joined(naive.answers(rows, windows, on, NAIVE_PAIRS))
    check(list(found.items()), expected)


def test_the_windows_of_pairs_are_answered_as_soon_as_they_are_complete() -> None:
    window = sliding(10, 10)
    plan, over = union.pair_plan(window, ("k",), shards=(0,)), finish(window, ("k",))
    rows = [side(builders.row(t)) for t in (1, 2, 11, 12, 21) for side in (union.left, union.right)]
    taken = []

    def watched() -> Iterator[pa.RecordBatch]:
        for batch in cut(1, answer_table(plan, pack(plan, [rows]))):
            taken.append(batch.column("window_id")[0].as_py())
            yield batch

    seen = [(batch.column("window_id").to_pylist(), len(taken)) for batch in over.run(watched())]
    assert taken == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert seen == [([0], 5), ([1], 9), ([2], 9)]


def test_late_rows_pass_by() -> None:
    late = pa.struct([("k", pa.string()), ("x", pa.float64())])
    over = finish(sliding(10, 10), ("k",), late)
    names = [*over.plan.types, "late", "lateness"]
    lateness = over.schema.field("lateness").type
    how_late = {"seconds": 2.5, "missed": []}
    rows: list[Mapping[str, Any]] = [
        {**dict.fromkeys(names), "k": "a", "late": {"k": "a", "x": 1.5}, "lateness": how_late},
        {**dict.fromkeys(names), "k": "b", "window_id": 3, TIME: 35, "x": 2.5, "late": None},
    ]
    types = {**over.plan.types, "late": late, "lateness": lateness}
    batch = pa.record_batch([pa.array([row[name] for row in rows], types[name]) for name in names], names=names)
    told = pa.Table.from_batches(list(over.run([batch]))).to_pylist()
    assert [(row["k"], row["window_id"], row["late"], row["count"]) for row in told] == [
        ("a", None, {"k": "a", "x": 1.5}, None),
        ("b", 3, None, 1),
    ]
    assert told[0]["window"] is None
    assert [row["lateness"] for row in told] == [how_late, None]


# Products that are too large

LARGE = 1 << 62


def sums(*values: int, partners: int) -> list[Any]:
    own = [union.left(builders.row(1, n=value)) for value in values]
    others = [union.right(builders.row(1)) for _ in range(partners)]
    aggregates = {
        "total": multiplied(A.sum("n"), union.TYPES, SIDE_FLAGS["left"], SIDE_FLAGS["right"], builders.TIME),
        **{name: A.count().bind({}, mark, builders.TIME) for name, mark in BOTH.items()},
    }
    plan = Plan.make(
        time=TIME,
        windows=(sliding(10, 10),),
        types=union.TYPES,
        keys=("k",),
        aggregates=aggregates,
        options=[BothSides(tuple(BOTH))],
        shards=(0,),
    )
    (share,) = answer(plan, [[*own, *others]])
    return [values["total"] for _, values in share]


@pytest.mark.parametrize(("values", "partners"), [((LARGE,), 2), ((-LARGE,), 3), ((LARGE, LARGE), 1)], ids=str)
def test_a_product_that_overflows_is_an_error(values: tuple[int, ...], partners: int) -> None:
    with pytest.raises(MuntinError, match="sum of column 'n' overflows a 64-bit integer in at least one window; cast"):
        sums(*values, partners=partners)


def test_a_product_at_the_limit_is_none() -> None:
    assert sums(-LARGE, partners=2) == [-(1 << 63)]
    assert sums(LARGE, -1, partners=1) == [LARGE - 1]
    assert sums(LARGE, LARGE, partners=0) == []  # without a partner there is nothing to overflow
