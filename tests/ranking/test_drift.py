"""How much groups change from window to window, counted per shard and batch, against plain sets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.engine.store import HotCache
from muntin.features.drift.feature import Drift
from muntin.features.drift.meter import DriftMeter, LastWindow
from muntin.features.ranking.policy import Top
from muntin.joins.both_sides import BothSides
from muntin.windows import PaneWindow
from tests import naive, strategies
from tests.builders import Step, Stream, make_plan, row, sliding
from tests.naive import Row
from tests.ranking.test_top import told

FIGURES = ("common", "union", "apart", "total")
KEYS = st.sampled_from([("k",), ("f",), ("s", "k")])
STEPS = strategies.steps(strategies.rows(st.integers(-20, 40), max_size=8), [0, 1, 7, 30, 100], max_size=7)
Concept = Mapping[Any, int]
"""The groups of a window, with their rows."""


def naive_drift(earlier: Concept, later: Concept) -> dict[str, int]:
    groups = earlier.keys() | later.keys()
    return {
        "common": len(earlier.keys() & later.keys()),
        "union": len(groups),
        "apart": sum(abs(earlier.get(group, 0) - later.get(group, 0)) for group in groups),
        "total": sum(earlier.values()) + sum(later.values()),
    }


def figures(stream: Stream) -> dict[str, int]:
    return {name: stream.total(f"drift_{name}") for name in FIGURES}


@settings(max_examples=60)
@given(strategies.windows(), KEYS, strategies.SHARDS, STEPS)
def test_any_stream_is_naive(
    windows: list[PaneWindow], keys: tuple[str, ...], shards: tuple[int, ...], steps: list[Step]
) -> None:
    plan = make_plan(windows, keys, ["count"], shards=shards, streaming=True, top=Top(10**6, "count", True))
    stream, watermark = Stream(plan), 0
    concepts: list[dict[tuple[str, int], dict[Any, int]]] = [defaultdict(dict) for _ in shards]
    counted: Counter[str] = Counter()
    for step in steps:
        rows = [{**each, "t": each["t"] + watermark} for each in step.rows]
        watermark += step.advance
        for of_shard, batches in zip(concepts, stream.told(rows, watermark, step.tasks), strict=True):
            for each in told(plan, batches):
                group = tuple(naive.comparable(each[key]) for key in keys)
                of_shard[each["window_name"], each["window_id"]][group] = each["count"]
        counted.update(figures(stream))
    expected: Counter[str] = Counter()
    for of_shard in concepts:
        for window in windows:
            known = [number for title, number in of_shard if title == window.title]
            last = window.last_ended(watermark)
            for number in {each + step for each in known for step in (0, 1)}:
                if min(known) < number <= last:
                    both = (of_shard.get((window.title, each), {}) for each in (number - 1, number))
                    expected.update(naive_drift(*both))
    assert {name: counted[name] for name in FIGURES} == {name: expected[name] for name in FIGURES}


def windows_of(stream: Stream, *batches: tuple[list[Row], int], cold: bool = False) -> list[dict[str, int]]:
    found = []
    for rows, watermark in batches:
        if cold:
            stream.cache = HotCache(capacity=8)
        list(stream.told(rows, watermark))
        found.append(figures(stream))
    return found


PLAN = make_plan([sliding(10, 10)], shards=[0, 1], streaming=True, top=Top(2, "count", True))
FIRST = [row(t, k=k) for t, k in ((1, "a"), (2, "a"), (3, "b"), (4, "c"))]
SECOND = [row(t, k=k) for t, k in ((11, "a"), (12, "d"), (13, "c"))]
BOTH = {"common": 2, "union": 4, "apart": 1 + 1 + 1, "total": 4 + 3}
NOTHING = dict.fromkeys(FIGURES, 0)


def test_windows_of_one_batch_are_compared() -> None:
    assert windows_of(Stream(PLAN), ([*FIRST, *SECOND], 20)) == [BOTH]


def test_windows_of_two_batches_are_compared_in_a_worker_that_has_seen_both() -> None:
    batches: list[tuple[list[Row], int]] = [(FIRST, 10), (SECOND, 15), ([], 20), ([], 20)]
    assert windows_of(Stream(PLAN), *batches) == [NOTHING, NOTHING, BOTH, NOTHING]
    assert windows_of(Stream(PLAN), *batches, cold=True) == [NOTHING] * 4


def test_a_batch_that_failed_leaves_nothing_to_compare_with() -> None:
    stream = Stream(PLAN)
    windows_of(stream, (FIRST, 10))
    before = stream.snapshot()
    windows_of(stream, (SECOND, 20))
    stream.restore(before)
    assert windows_of(stream, (SECOND, 20)) == [NOTHING]  # the cache has what was never committed


def test_a_window_without_rows_has_no_groups() -> None:
    assert windows_of(Stream(PLAN), (FIRST, 30)) == [{"common": 0, "union": 3, "apart": 4, "total": 4}]


def test_a_batch_in_which_no_window_has_all_that_is_required() -> None:
    both = BothSides(("count_x",))
    plan = make_plan(
        [sliding(10, 10)], names=["count", "count_x"], streaming=True, top=Top(2, "count", True), options=[both]
    )
    stream = Stream(plan)
    without_x = [row(t, k="a", x=None) for t in (1, 2)]
    assert windows_of(stream, (without_x, 10)) == [NOTHING]
    with_x = [row(t, k=k, x=1.0) for t, k in ((11, "a"), (21, "a"), (22, "b"))]
    assert windows_of(stream, (with_x, 30)) == [{"common": 1, "union": 2, "apart": 1, "total": 3}]


def test_what_a_query_without_ranking_does_not_pay_for() -> None:
    plain = make_plan([sliding(10, 10)], streaming=True)
    table = make_plan([sliding(10, 10)], top=Top(2, "count", True))
    assert PLAN.feature(Drift) is not None
    assert plain.feature(Drift) is None
    assert table.feature(Drift) is None
    assert PLAN.fingerprint == plain.fingerprint == table.fingerprint
    assert windows_of(Stream(plain), ([*FIRST, *SECOND], 20)) == [NOTHING]


def test_a_cache_keeps_the_windows_of_few_shards() -> None:
    cache, last = HotCache(capacity=1), DriftMeter(PLAN).last
    last[0] = LastWindow(3, np.zeros(0, np.uint64), np.zeros(0, np.int64))
    cache.put_notes("query", 0, "v1", {"last_windows": last})
    assert cache.notes("query", 0, "v1")["last_windows"] is last
    assert cache.notes("query", 0, "v2") == {}
    cache.put_notes("query", 0, "v1", {"last_windows": last})
    cache.put_notes("query", 1, "v1", {})
    assert cache.notes("query", 0, "v1") == {}


def test_what_drift_is_counted_from_is_not_told() -> None:
    assert [output.name for output in PLAN.outputs] == ["count"]
    assert PLAN.result_schema.names == ["window", "window_id", "k", "count"]
