"""Updates of sessions and of windows over rows, against recomputation: they grow, merge, and are numbered anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.features import Option
from muntin.engine.plan import Plan
from muntin.engine.store import HotCache
from muntin.features.updates import ledger
from muntin.features.updates.policy import Updates
from muntin.features.workers.policy import Workers
from muntin.panes.tuples import MEMBERSHIP
from tests import builders, naive, strategies
from tests.builders import CASES, Step, Stream, aggregations, make_plan, row, tiny, us
from tests.naive import Aggregation, Row
from tests.updates import naive_tuples, naive_updates
from tests.updates.naive_tuples import Identity

TYPES = builders.TYPES | strategies.GROWING
DELAY = 5
# The order of equal times in an open session is not final, and variances are rounded.
EXACT = [name for name in CASES if not name.startswith(("var", "stddev", "composed"))]
NAMES = st.lists(st.sampled_from(EXACT), min_size=1, max_size=3, unique=True)
WITHIN = st.sampled_from([1, 7, 30])
POLICIES = st.builds(Updates, st.just(True), st.none(), st.none() | WITHIN) | st.builds(
    Updates, st.just(False), st.none(), WITHIN
)
MODELS: dict[str, st.SearchStrategy[W.Window]] = {
    "session": strategies.SESSIONS,
    "count": st.builds(
        lambda unit, size, slide: W.count(unit * size, unit * slide),
        st.sampled_from([1, 2]),
        strategies.COUNTS,
        strategies.COUNTS,
    ),
    "slide_by_tuple": strategies.SLIDES_BY_TUPLE,
    "delta": strategies.DELTAS,
}
LIMITS = st.tuples(st.integers(2, 8), st.sampled_from([0, 1, 1 << 12]), st.sampled_from([1, 3, 1 << 20]))
STEPS = strategies.steps(
    strategies.growing_rows(st.none() | st.integers(-40, 30) | st.integers(0, 2), max_size=6),
    [0, 1, 7, 20, 60],
    max_size=8,
)
CLOSING = Step([], advance=1000, tasks=1, cold=False, replay=False)


def updating_plan(
    windows: Sequence[W.Window],
    keys: tuple[str, ...],
    names: list[str],
    policy: Updates,
    *others: Option,
    delay: int | None = DELAY,
) -> Plan:
    shards = (0, 3, 5)
    options = [policy, *others]
    return make_plan(windows, keys, names, shards=shards, streaming=True, delay=delay, types=TYPES, options=options)


def shifted(each: Row, by: int) -> Row:
    return {**each, **{name: None if each[name] is None else each[name] + by for name in ("t", "d", "e")}}


def oracles_of(plan: Plan, policy: Updates) -> list[naive_tuples.Stream]:
    assert plan.layout.tuples is not None
    columns = [name for name in plan.layout.tuples.names if name != MEMBERSHIP]
    named: dict[str, Aggregation] = aggregations(plan)
    return [naive_tuples.Stream(window, plan.keys, columns, named, policy, plan.delay) for window in plan.windows]


def rows_of(stream: Stream, step: Step, rows: list[Row], watermark: int) -> dict[Identity, dict[str, Any]]:
    """What a batch emits, by the identity of windows; none may come twice."""
    found: dict[Identity, dict[str, Any]] = {}
    for share in stream.run(step, rows, watermark)[0]:
        for (end, start, title, number, key), values in share:
            assert (title, number, key) not in found
            found[title, number, key] = {"start": start, "end": end, "retracted": False, **values}
    return found


def check_stream(plan: Plan, policy: Updates, steps: Sequence[Step]) -> None:
    stream, oracles = Stream(plan), oracles_of(plan, policy)
    watermark = 0
    for step in [*steps, CLOSING]:
        rows = [shifted(each, watermark) for each in step.rows]
        watermark += step.advance
        found = rows_of(stream, step, rows, watermark)
        expected: dict[Identity, dict[str, Any]] = {}
        late = len(rows)
        for oracle in oracles:
            emitted, too_late = oracle.batch(rows, watermark)
            expected |= emitted
            late = min(late, too_late)
        assert found.keys() == expected.keys()
        for identity, values in expected.items():
            for name, value in values.items():
                assert naive.same(found[identity][name], value), (identity, name, found[identity], values)
        assert stream.total("results") == len(expected)
        if len(oracles) == 1:
            assert stream.total("late_rows") == late
    for oracle in oracles:
        for identity, values in oracle.final.items():
            assert naive_tuples.same(oracle.last[identity], values)


@pytest.mark.parametrize("model", MODELS)
def test_any_stream_emits_what_changed(model: str) -> None:
    @settings(max_examples=20)
    @given(
        MODELS[model],
        strategies.KEYS,
        NAMES,
        POLICIES,
        STEPS,
        LIMITS,
        st.sampled_from([(0, 0), (2, 1 << 10)]),
        st.sampled_from([DELAY, None]),
    )
    def emits_what_changed(
        window: W.Window,
        keys: tuple[str, ...],
        names: list[str],
        policy: Updates,
        steps: list[Step],
        limits: tuple[int, int, int],
        parts: tuple[int, int],
        delay: int | None,
    ) -> None:
        with tiny(*limits), patch.multiple(ledger, MERGED=parts[0], UNUSED_KEYS=parts[1]):
            check_stream(updating_plan([window], keys, names, policy, delay=delay), policy, steps)

    emits_what_changed()


@settings(max_examples=15)
@given(
    st.lists(st.one_of(*MODELS.values()), min_size=2, max_size=3),
    NAMES,
    POLICIES,
    STEPS,
    LIMITS,
    st.sampled_from([[], [Workers("active", 3)]]),
)
def test_several_models_together(
    windows: list[W.Window],
    names: list[str],
    policy: Updates,
    steps: list[Step],
    limits: tuple[int, int, int],
    others: list[Option],
) -> None:
    windows = [replace(window, name=f"w{index}") for index, window in enumerate(windows)]
    if any(window.forward_context == "aware" for window in windows):
        others = []  # active workers cannot run them
    with tiny(*limits):
        check_stream(updating_plan(windows, ("k",), names, policy, *others), policy, steps)


def told(stream: Stream, rows: Sequence[Row], watermark: int) -> list[tuple[Any, ...]]:
    """What a batch emits: start and end of the window, the answer, timing, revision, and whether it is retracted."""
    ((share,), _) = stream.batch(rows, watermark)
    return [(place[1], place[0], *values.values()) for place, values in share]


def one_shard(window: W.Window, policy: Updates, name: str = "count") -> Stream:
    plan = make_plan([window], ("k",), [name], streaming=True, delay=DELAY, types=TYPES, options=[policy])
    return Stream(plan)


def at(*times: int) -> list[Row]:
    return [{**row(time), "d": time, "e": 0.0} for time in times]


def test_a_session_grows_and_merges_with_an_earlier_one() -> None:
    """
    Rows      0         20       8         12
    sessions  [0,10)    [20,30)  [0,18)    [0,30): the session from 20 on is retracted
    """
    stream = one_shard(W.session(us(10)), Updates(on_change=True, within=50))
    assert told(stream, at(0), 0) == [(0, 10, 1, "early", 0, False)]
    assert told(stream, at(20), 0) == [(20, 30, 1, "early", 0, False)]
    assert told(stream, at(8), 25) == [(0, 18, 2, "on_time", 1, False)]
    assert told(stream, at(12), 25) == [(0, 30, 4, "early", 2, False), (20, 30, None, "early", 1, True)]
    assert told(stream, [], 40) == []
    assert told(stream, at(13), 40) == [(0, 30, 5, "late", 3, False)]
    assert told(stream, [], 81) == []
    assert stream.total("panes") == 0


def test_a_session_that_grew_without_a_row_keeps_its_revision() -> None:
    """It closed, late rows opened it again, and what was emitted of it would have been final long ago."""
    stream = one_shard(W.session(us(10)), Updates(within=30))
    assert told(stream, at(0), 0) == []
    assert told(stream, [], 20) == [(0, 10, 1, "on_time", 0, False)]
    assert told(stream, at(8, 16, 24, 32, 40, 48, 56, 64), 20) == []
    assert told(stream, at(65), 50) == []
    assert told(stream, at(200), 60) == []
    assert told(stream, [], 80) == [(0, 75, 10, "on_time", 1, False)]


def test_a_late_row_moves_all_later_rows_of_its_key() -> None:
    """Windows of two rows: a row in the middle gives every later window other rows."""
    stream = one_shard(W.count(2), Updates(on_change=True, within=100), "sum_n")
    assert told(stream, at(10, 20, 30, 40), 0) == [(10, 20, 2, "on_time", 0), (30, 40, 2, "early", 0)]
    assert told(stream, at(15), 35) == [(10, 15, 2, "late", 1), (20, 30, 2, "late", 1)]
    assert told(stream, at(50), 35) == [(40, 50, 2, "early", 0)]


def test_every_limits_early_rows_of_sessions() -> None:
    stream = one_shard(W.session(us(10)), Updates(on_change=True, every=10_000))

    def when(clock: int, rows: list[Row], watermark: int = 0) -> list[tuple[Any, ...]]:
        stream.clock = clock
        stream.cache = HotCache(capacity=8)  # a worker that has never seen the shard
        return told(stream, rows, watermark)

    assert when(100, at(0)) == [(0, 10, 1, "early", 0, False)]
    assert when(104, at(5)) == []
    assert when(105, at(30)) == []
    assert when(106, [], 20) == [(0, 15, 2, "on_time", 1, False)]
    assert when(107, at(33), 20) == []
    assert when(110, [], 20) == [(30, 43, 2, "early", 0, False)]
    assert when(111, at(50), 20) == []
    assert when(121, at(57), 20) == [(50, 67, 2, "early", 0, False)]
    assert when(122, at(28), 20) == []  # the session from 30 on begins earlier now
    assert when(132, [], 20) == [(28, 43, 3, "early", 0, False), (30, 43, None, "early", 1, True)]


@settings(max_examples=15)
@given(
    strategies.windows(max_size=2),
    st.lists(st.one_of(*MODELS.values()), min_size=1, max_size=2),
    NAMES,
    POLICIES,
    STEPS,
    LIMITS,
)
def test_windows_over_time_beside_others(
    over_time: list[W.PaneWindow],
    others: list[W.Window],
    names: list[str],
    policy: Updates,
    steps: list[Step],
    limits: tuple[int, int, int],
) -> None:
    over_tuples = [replace(window, name=f"tuples {index}") for index, window in enumerate(others)]
    plan = updating_plan([*over_time, *over_tuples], ("k",), names, policy)
    with tiny(*limits):
        stream, watermark = Stream(plan), 0
        titles = {window.title for window in over_time}
        panes = naive_updates.Stream(over_time, plan.keys, aggregations(plan), policy)
        tuples = oracles_of(plan, policy)[len(over_time) :]
        for step in [*steps, CLOSING]:
            rows = [shifted(each, watermark) for each in step.rows]
            watermark += step.advance
            found = rows_of(stream, step, rows, watermark)
            expected = {
                (title, number, key): {**values, "start": start, "end": end}
                for (end, start, title, number, key), values in panes.batch(rows, watermark, {})[0].items()
            }
            assert {title for title, *_ in found} <= titles | {window.title for window in over_tuples}
            for oracle in tuples:
                expected |= oracle.batch(rows, watermark)[0]
            assert found.keys() == expected.keys()
            for identity, values in expected.items():
                for name, value in values.items():
                    assert naive.same(found[identity][name], value), (identity, name, found[identity], values)


def test_what_was_emitted_of_a_window_that_ended_later_before_is_forgotten_with_it() -> None:
    """A row that comes out of order moves the first window to an earlier time, at which it is final at once."""
    stream = one_shard(W.slide_by_tuple(us(1), 1), Updates(on_change=True))
    assert told(stream, at(1), 0) == [(0, 1, 1, "early", 0)]
    assert told(stream, at(0), 1) == [(-1, 0, 1, "on_time", 1), (0, 1, 1, "early", 0)]
    assert told(stream, at(1), 1) == [(0, 1, 2, "early", 1), (0, 1, 2, "early", 0)]
