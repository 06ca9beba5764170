"""The pairs of windows: those of a nested loop, each as often, however the tuples came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.features.compression.policy import Compression
from muntin.features.shedding.policy import Method, Shedding
from muntin.joins import product
from muntin.joins.names import SIDE_FLAGS, TIME
from muntin.joins.product import Origin, Product
from tests import naive, strategies
from tests.builders import NEVER_COMPRESSED, Step, Stream, answer, tiny
from tests.joins import union
from tests.naive import Place, Row

LIMITS = st.tuples(st.integers(2, 3), st.sampled_from([0, 1 << 16]), st.sampled_from([1, 5, 1 << 20]))
PIECES = st.sampled_from([1, 2, 7, 1 << 20])
LISTED = {"pairs": lambda rows: union.listed(rows) or union.NOTHING}


def found_pairs(results: Sequence[tuple[Place, dict[str, Any]]]) -> dict[Place, dict[str, list[str]]]:
    found: dict[Place, dict[str, list[str]]] = {}
    for place, pair in results:
        found.setdefault(place, {"pairs": []})["pairs"].append(union.told(pair))
    return {place: {"pairs": sorted(named["pairs"])} for place, named in found.items()}


@given(union.WINDOWS, union.ON, strategies.SHARDS, union.sides(), PIECES, LIMITS, st.data())
def test_any_table_has_the_pairs_of_a_nested_loop(
    windows: list[W.Window],
    on: tuple[str, ...],
    shards: tuple[int, ...],
    rows: list[Row],
    pieces: int,
    limits: tuple[int, int, int],
    data: st.DataObject,
) -> None:
    plan = union.pair_plan(windows[0], on, shards=shards)
    rows = union.with_keys(rows, on)
    with tiny(*limits), patch.object(product, "MOST_PAIRS", pieces):
        shares = list(answer(plan, data.draw(strategies.cuts(rows))))
    for share in shares:
        bounds = [place[:2] for place, _ in share]
        assert bounds == sorted(bounds)
    expected = union.joined(naive.answers(rows, windows, on, LISTED))
    assert found_pairs([result for share in shares for result in share]) == expected


STEPS = strategies.steps(union.sides(st.integers(-30, 60)), (0, 1, 5, 20, 40), max_size=4)
CLOSING = Step([], 1_000, 1, cold=True, replay=False)
COMPRESSIONS = st.sampled_from([NEVER_COMPRESSED, Compression(0, "lz4"), Compression(5, "zstd", 1)])


@settings(max_examples=40)
@given(union.WINDOWS, union.ON, strategies.SHARDS, STEPS, COMPRESSIONS, PIECES, LIMITS)
def test_any_stream_has_the_pairs_of_a_nested_loop(
    windows: list[W.Window],
    on: tuple[str, ...],
    shards: tuple[int, ...],
    steps: list[Step],
    compression: Compression,
    pieces: int,
    limits: tuple[int, int, int],
) -> None:
    plan = union.pair_plan(windows[0], on, shards=shards, streaming=True, options=[compression])
    stream, oracle = Stream(plan), naive.Stream(windows, on, LISTED)
    with tiny(*limits), patch.object(product, "MOST_PAIRS", pieces):
        for step in [*steps, CLOSING]:
            rows = [{**row, "t": row["t"] + oracle.watermark} for row in union.with_keys(step.rows, on)]
            rows = [{**row, TIME: row["t"]} for row in rows]
            watermark = oracle.watermark + step.advance
            found, _ = stream.run(step, rows, watermark)
            answers, late = oracle.batch(rows, watermark)
            assert found_pairs([each for share in found for each in share]) == union.joined(answers)
            assert stream.total("late_rows") == len(late)


@settings(max_examples=20)
@given(union.WINDOWS, union.ON, union.sides(max_size=20), st.sampled_from(["concept", "uniform"]), PIECES)
def test_the_pairs_of_tuples_that_were_not_shed(
    windows: list[W.Window], on: tuple[str, ...], rows: list[Row], method: Method, pieces: int
) -> None:
    shedding = Shedding.of(0.5, None, method, 0, 0.95)
    plan = union.pair_plan(windows[0], on, shards=(0,), options=[shedding])
    rows = union.with_keys(rows, on)
    with patch.object(product, "MOST_PAIRS", pieces):
        (share,) = answer(plan, [rows])
    every = naive.answers(rows, windows, on, LISTED)
    for place, named in found_pairs(share).items():
        assert not Counter(named["pairs"]) - Counter(every[place]["pairs"])
    for _, pair in share:
        assert pair["quality"]["sampled"] <= pair["quality"]["size"]


def table(sides: str) -> pa.RecordBatch:
    marked, places = pa.array([side == "L" for side in sides], pa.bool_()), pa.array(range(len(sides)), pa.int64())
    return pa.record_batch([marked, places, places], names=[SIDE_FLAGS["left"], "a", "b"])


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_pairs_are_in_the_order_of_windows_then_left_then_right(most: int) -> None:
    #  place:  0  1  2  3  4      windows: [0, 4) and [1, 5), one without a right tuple, one without any
    #  side:   L  R  L  R  R
    both = Product(pa.schema([("a", pa.int64()), ("b", pa.int64())]), (Origin("a", "left"), Origin("b", "right")))
    begin, end = np.array([0, 2, 1, 3]), np.array([4, 3, 5, 3])
    with patch.object(product, "MOST_PAIRS", most):
        pieces = list(both.pieces(table("LRLRR"), begin, end))
    assert all(len(window) <= most for window, _ in pieces)
    found = [
        (int(w), a.as_py(), b.as_py()) for window, columns in pieces for w, a, b in zip(window, *columns, strict=True)
    ]
    assert found == [(0, 0, 1), (0, 0, 3), (0, 2, 1), (0, 2, 3), (2, 2, 1), (2, 2, 3), (2, 2, 4)]


def test_no_tuples_make_no_pairs() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    one = Product(pa.schema([("a", pa.int64())]), (Origin("a", "left"),))
    assert list(one.pieces(table(""), nothing, nothing)) == []
