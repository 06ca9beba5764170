"""Updates of time windows, against recomputation: early, on-time and late rows, with restarts and replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.engine.changes import changes
from muntin.engine.features import Option
from muntin.engine.plan import Plan
from muntin.engine.store import HotCache
from muntin.features.compression.policy import Compression
from muntin.features.shedding.policy import Shedding
from muntin.features.updates import ledger, pending
from muntin.features.updates.policy import Updates
from muntin.features.workers.policy import Workers
from muntin.panes.keys import hashes
from muntin.panes.table import key_columns
from tests import naive, strategies
from tests.builders import (
    CASES,
    Step,
    Stream,
    aggregations,
    answer,
    check,
    make_plan,
    row,
    sliding,
    tiny,
    to_batch,
)
from tests.naive import Row
from tests.updates import naive_updates

EXACT = [name for name in CASES if not name.startswith(("var", "stddev"))]  # rounding may look like a change
NAMES = st.lists(st.sampled_from(EXACT), min_size=1, max_size=4, unique=True)
POLICIES = st.builds(
    Updates,
    st.just(True),
    st.none() | st.sampled_from([1, 3_000, 10_000]),
    st.none() | st.sampled_from([1, 7, 30]),
) | st.builds(Updates, st.just(False), st.none(), st.sampled_from([1, 7, 30]))
LIMITS = st.tuples(st.integers(2, 8), st.sampled_from([0, 1, 1 << 12]), st.sampled_from([1, 3, 1 << 20]))
STEPS = strategies.steps(
    strategies.rows(st.none() | st.integers(-40, 30) | st.integers(0, 2), max_size=6), [0, 1, 7, 20, 60], max_size=8
)
CLOSING = Step([], advance=1000, tasks=1, cold=False, replay=False)


def updating_plan(
    windows: Sequence[Any],
    keys: tuple[str, ...],
    names: list[str],
    policy: Updates,
    shards: tuple[int, ...] = (0,),
    *others: Option,
) -> Plan:
    return make_plan(windows, keys, names, shards=shards, streaming=True, delay=5, options=[policy, *others])


def shifted(row: Row, by: int) -> Row:
    return {**row, "t": None if row["t"] is None else row["t"] + by}


def shards_of(plan: Plan, rows: Sequence[Row]) -> dict[Any, int]:
    """The shard of each key."""
    if not plan.keys or not rows:
        return {}
    columns = key_columns(to_batch(rows, plan.types), plan.layout.keys)
    return {
        naive.key_of(row, plan.keys): int(hashed % len(plan.shards))
        for row, hashed in zip(rows, hashes(columns, len(rows)).tolist(), strict=True)
    }


def without_quality(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "quality"}


def check_state(stream: Stream) -> None:
    """Nothing is in the state but what its header names."""
    for shard, state in stream.states.items():
        header = stream.store(shard).header
        named = {each.name for each in header.segments} | {each.location.value for each in header.chunks}
        named |= {name for name, *_ in header.parts["updates"]["parts"] + header.parts["updates"]["pending"]}
        assert state.values.keys() == named


def check_stream(plan: Plan, policy: Updates, steps: Sequence[Step]) -> dict[Any, dict[str, Any]]:
    stream = Stream(plan)
    oracle = naive_updates.Stream(plan.windows, plan.keys, aggregations(plan), policy)
    shards: dict[Any, int] = {}
    for step in [*steps, CLOSING]:
        stream.clock = oracle.clock = oracle.clock + 2 + step.advance // 7
        rows = [shifted(each, oracle.watermark) for each in step.rows]
        shards |= shards_of(plan, rows)
        watermark = oracle.watermark + step.advance
        found, _ = stream.run(step, rows, watermark)
        expected, late = oracle.batch(rows, watermark, shards)
        check([(place, without_quality(values)) for share in found for place, values in share], expected)
        for share in found:
            ends = [place[:2] for place, _ in share]
            assert ends == sorted(ends)
        assert stream.total("late_rows") == len(late)
        assert stream.total("results") == len(expected)
        for metric, timing in (("early_results", "early"), ("late_results", "late")):
            assert stream.total(metric) == sum(row["timing"] == timing for row in expected.values())
        check_state(stream)
    assert oracle.last.keys() == oracle.rows.keys()
    return oracle.last


@settings(max_examples=40)
@given(strategies.windows(), strategies.KEYS, NAMES, strategies.SHARDS, POLICIES, STEPS, LIMITS, st.data())
def test_any_stream_emits_what_changed(
    windows: list[Any],
    keys: tuple[str, ...],
    names: list[str],
    shards: tuple[int, ...],
    policy: Updates,
    steps: list[Step],
    limits: tuple[int, int, int],
    data: st.DataObject,
) -> None:
    plan = updating_plan(windows, keys, names, policy, shards)
    merged, unused = data.draw(st.sampled_from([(0, 0), (2, 1 << 10)]))
    with (
        tiny(*limits),
        patch.multiple(ledger, MERGED=merged, UNUSED_KEYS=unused),
        patch.object(pending, "MOST_VALUES", data.draw(st.integers(1, 8))),
    ):
        check_stream(plan, policy, steps)


SHED = Shedding.of(0.5, None, "concept", 0, 0.95)
OTHERS: dict[str, tuple[list[Option], list[str]]] = {
    "active": ([Workers("active", 3, batch=2)], EXACT),
    "compress": ([Compression(0, unit="key")], ["median_x", "distinct_w"]),
    "shed": ([SHED], ["sum_n", "max_w"]),
}


@pytest.mark.parametrize("other", OTHERS)
def test_updates_compose(other: str) -> None:
    options, names = OTHERS[other]

    @settings(max_examples=15)
    @given(strategies.windows(), POLICIES, STEPS, LIMITS, st.data())
    def emits_what_changed(
        windows: list[Any], policy: Updates, steps: list[Step], limits: tuple[int, int, int], data: st.DataObject
    ) -> None:
        policy = replace(policy, every=None)  # how often is a matter of shards, which have windows of their own here
        chosen = [data.draw(st.sampled_from(names)), "count"]
        plan = updating_plan(windows, ("k",), chosen, policy, (7, 3, 1), *options)
        with tiny(*limits):
            check_stream(plan, policy, steps)

    emits_what_changed()


TABLES = strategies.rows(max_size=25)


@settings(max_examples=20)
@given(strategies.windows(), strategies.KEYS, NAMES, POLICIES, TABLES, st.data())
def test_the_last_revisions_are_the_answers_of_the_table(
    windows: list[Any], keys: tuple[str, ...], names: list[str], policy: Updates, rows: list[Row], data: st.DataObject
) -> None:
    """If no row is too late. An early row is the answer of the table of the rows so far."""
    rows = [shifted(row, 1000) for row in rows]
    policy = replace(policy, every=None)
    plan = updating_plan(windows, keys, names, policy)
    table = make_plan(windows, keys, names, options=[policy])
    stream, last, so_far = Stream(plan), dict[Any, dict[str, Any]](), list[Row]()
    for number, part in enumerate([*data.draw(strategies.cuts(rows)), []]):
        so_far += part
        (found,), late = stream.batch(part, 0 if len(so_far) < len(rows) or part else 5000)
        assert not late, number
        answers = dict(next(answer(table, [so_far])))
        for place, values in found:
            assert values["revision"] == (last[place]["revision"] + 1 if place in last else 0)
            for name in names:
                assert naive.same(values[name], answers[place][name])
            last[place] = values
    (tables,) = list(answer(table, [rows]))
    assert last.keys() == dict(tables).keys()
    for place, values in tables:
        assert (values["timing"], values["revision"]) == ("on_time", 0)
        assert all(naive.same(last[place][name], values[name]) for name in names)


MINUTE = 60
TUMBLING = [sliding(MINUTE, MINUTE)]


def told(stream: Stream, rows: Sequence[Row], watermark: int) -> list[tuple[Any, ...]]:
    """What a batch emits: key, end of the window, the answer, timing and revision."""
    found, _ = stream.batch(rows, watermark)
    return [(place[4][0], place[0], *values.values()) for share in found for place, values in share]


def test_one_window_is_early_then_on_time_then_late() -> None:
    stream = Stream(updating_plan(TUMBLING, ("k",), ["count"], Updates(on_change=True, within=60)))
    assert told(stream, [row(10)], 0) == [("a", 60, 1, "early", 0)]
    assert told(stream, [row(20), row(20, "b")], 0) == [("a", 60, 2, "early", 1), ("b", 60, 1, "early", 0)]
    assert told(stream, [row(30)], 0) == [("a", 60, 3, "early", 2)]
    assert told(stream, [row(40)], 70) == [("a", 60, 4, "on_time", 3)]
    assert told(stream, [row(50)], 100) == [("a", 60, 5, "late", 4)]
    assert told(stream, [row(50, "c")], 119) == [("c", 60, 1, "late", 0)]
    assert told(stream, [row(50)], 130) == [("a", 60, 6, "late", 5)]  # the watermark of the batch before counts
    assert stream.total("panes") == 0
    assert told(stream, [row(50)], 130) == []
    assert stream.total("late_rows") == 1


def test_the_timeline_of_the_page() -> None:
    """The example of docs/updates.md, in minutes after ten."""
    stream = Stream(updating_plan(TUMBLING, ("k",), ["count"], Updates(on_change=True, within=60)))
    batches = [([12], 20), ([31, 33], 35), ([], 50), ([58], 65), ([49], 122), ([15], 130)]
    found = [told(stream, [row(time) for time in times], watermark) for times, watermark in batches]
    assert [[(answer, timing, revision) for _, _, answer, timing, revision in rows] for rows in found] == [
        [(1, "early", 0)],
        [(3, "early", 1)],
        [],
        [(4, "on_time", 2)],
        [(5, "late", 3)],
        [],
    ]
    assert stream.total("late_rows") == 1


def test_what_did_not_change_is_not_emitted() -> None:
    """A smaller value does not change a maximum, and a window that closes without a change has no row on time."""
    stream = Stream(updating_plan(TUMBLING, ("k",), ["max_x"], Updates(on_change=True)))
    assert told(stream, [row(10, x=5.0)], 0) == [("a", 60, 5.0, "early", 0)]
    assert told(stream, [row(11, x=4.0), row(12, x=5.0), row(13, x=None)], 0) == []
    assert stream.total("unchanged_windows") == 1
    assert told(stream, [], 70) == []
    assert stream.total("panes") == 0


def test_without_early_rows_windows_are_emitted_when_they_close() -> None:
    stream = Stream(updating_plan(TUMBLING, ("k",), ["count"], Updates(within=60)))
    assert told(stream, [row(10)], 0) == []
    assert told(stream, [row(70)], 65) == [("a", 60, 1, "on_time", 0)]
    assert told(stream, [row(20), row(20), row(80)], 65) == [("a", 60, 3, "late", 1)]
    assert told(stream, [row(20, "b")], 70) == [("b", 60, 1, "late", 0)]
    assert told(stream, [row(20)], 130) == [("a", 60, 4, "late", 2), ("a", 120, 2, "on_time", 0)]


def test_every_limits_early_rows_only() -> None:
    policy = Updates(on_change=True, every=10_000, within=60)
    stream = Stream(updating_plan(TUMBLING, ("k",), ["count"], policy))

    def at(clock: int, rows: Sequence[Row], watermark: int = 0) -> list[tuple[Any, ...]]:
        stream.clock = clock
        stream.cache = HotCache(capacity=8)  # a worker that has never seen the shard
        return told(stream, rows, watermark)

    assert at(100, [row(10)]) == [("a", 60, 1, "early", 0)]
    assert at(105, [row(10), row(10, "b")]) == []
    assert at(109, [row(70)]) == []
    assert at(110, []) == [("a", 60, 2, "early", 1), ("b", 60, 1, "early", 0), ("a", 120, 1, "early", 0)]
    assert at(111, [row(11)]) == []
    assert at(112, [row(71, "b")], 60) == [("a", 60, 3, "on_time", 2)]
    assert at(113, [row(12)], 60) == [("a", 60, 4, "late", 3)]
    assert at(121, [], 60) == [("b", 120, 1, "early", 0)]


def test_only_changed_keys_are_answered() -> None:
    """All keys are in the window, and some of them have changed."""
    stream = Stream(updating_plan(TUMBLING, ("k",), ["count"], Updates(on_change=True)))
    keys = [f"{number:03}" for number in range(200)]
    told(stream, [row(10, key) for key in keys], 0)
    for changed in (keys[50:53], keys[::2]):
        stream.batch([], 0)
        emitted = told(stream, [row(20, key) for key in changed], 0)
        assert sorted(key for key, *_ in emitted) == changed
        assert stream.total("results") == len(changed)
        assert {answer for _, _, answer, _, _ in emitted} <= {2, 3}


def test_another_policy_is_another_query() -> None:
    policies = [Updates(True), Updates(True, within=5), Updates(within=5), Updates(within=6)]
    plans = [updating_plan(TUMBLING, ("k",), ["count"], policy) for policy in policies]
    plans.append(make_plan(TUMBLING, streaming=True, delay=5))
    assert len({plan.fingerprint for plan in plans}) == len(plans)
    assert updating_plan(TUMBLING, ("k",), ["count"], Updates(True, every=7)).fingerprint == plans[0].fingerprint
    described = [plan.description for plan in plans]
    assert changes(described[0], described[1]) == ["within of updates None → '5 microseconds'"]
    assert changes(described[1], described[2]) == ["emission of updates 'on_change' → 'on_close'"]
    assert changes(described[4], described[0]) == ['.emit("on_change") added']


def test_the_ledger_is_small_and_goes_with_its_windows() -> None:
    windows = [sliding(60, 1)]
    stream = Stream(updating_plan(windows, ("k",), ["count", "sum_n"], Updates(on_change=True)))
    keys = [f"key {number}" for number in range(200)]
    for second in range(100, 105):
        stream.batch([row(second, key, n=number) for number, key in enumerate(keys)], 0)
    entries = 200 * 64  # windows that have had a row
    assert stream.total("ledger_bytes") < 14 * entries
    stream.batch([], 1000)
    assert stream.total("ledger_bytes") == 0
    check_state(stream)
