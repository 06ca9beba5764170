"""Idle streams without Spark: windows close as the clock says, whatever the model, the options and the restarts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.engine.features import Option, Task
from muntin.engine.map_stage import DRAIN, NO_TIME, TICK, PackedPanes
from muntin.engine.plan import Plan
from muntin.engine.shard import Shard
from muntin.engine.store import HotCache
from muntin.features.compression.policy import Compression
from muntin.features.idle import inputs
from muntin.features.idle.feature import Idling
from muntin.features.idle.inputs import Input, Inputs
from muntin.features.idle.policy import Idle
from muntin.features.ranking.policy import Top
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding.policy import Shedding
from muntin.features.updates.policy import Updates
from muntin.features.workers.jobs import computed
from muntin.features.workers.policy import Workers
from muntin.query.start import with_idle
from muntin.testing.rows import Rows
from tests import builders, strategies
from tests.builders import TIME, Stream, by_shard, check, make_plan, pack, plan_of, read, row, sliding, tiny
from tests.idle.naive_idle import Batch, Clock
from tests.naive import Row
from tests.stages.test_models import LIMITS, NAMES, TYPES, check_state, oracle_of, repeated, shifted, without_order


@dataclass(frozen=True)
class Step:
    """A batch: rows that come, or nothing but a tick, or a run that is bounded."""

    rows: list[Row] | None
    """Relative to the watermark; None if the source has nothing to give."""
    clock: int
    """How much later than the batch before."""
    restarts: bool
    replays: bool
    drains: bool = False


ROWS = strategies.growing_rows(st.none() | st.integers(-10, 30) | st.integers(0, 2), max_size=6)
STEPS = strategies.sized_lists(
    st.builds(Step, st.none() | ROWS, st.sampled_from([0, 1, 5, 30]), st.booleans(), st.booleans(), st.booleans()),
    min_size=0,
    max_size=9,
)
IDLE = st.none() | st.sampled_from([1, 5, 20])


@contextmanager
def fine_clock() -> Iterator[None]:
    """A clock in the unit of event time."""
    with patch.object(inputs, "MILLISECOND", 1):
        yield


def without_rows(plan: Plan, reason: int = TICK) -> list[PackedPanes]:
    return [PackedPanes(shard, 0, 0, 0, None, None, input=reason) for shard in plan.shards]


class IdleStream(Stream):
    """A stream that may get ticks in place of rows."""

    def send(self, sent: Sequence[PackedPanes], watermark: int) -> builders.Found:
        results, late = [], []
        for shard, share in by_shard(self.plan, sent).items():
            stage = Shard(plan_of(self.plan, shard), self.store(shard), shard, Task(clock=self.clock))
            found, too_late = read(self.plan, computed(self.plan, stage.run(share, watermark)))
            self.metrics[shard] = stage.metrics
            results.append(found)
            late += too_late
        return results, late

    def step(self, step: Step, rows: Sequence[Row] | None, watermark: int) -> builders.Found:
        sent = [] if rows is None else pack(self.plan, [rows])
        if rows is None or step.drains:
            sent += without_rows(self.plan, DRAIN if step.drains else TICK)
        if step.restarts:
            self.cache = HotCache(capacity=8)
        if step.replays:
            before = self.snapshot()
            self.send(sent, watermark)
            self.restore(before)
        return self.send(sent, watermark)


def latest_of(rows: Sequence[Row] | None) -> dict[int, int | None]:
    """The input with its latest event time, if it had data."""
    return {} if rows is None else {0: max((each["t"] for each in rows if each["t"] is not None), default=None)}


def idle_plan(
    windows: list[W.Window],
    keys: tuple[str, ...],
    names: list[str],
    shards: tuple[int, ...],
    late: bool,
    own: bool,
    idle: Idle,
) -> Plan:
    delay = None if own else 3
    names = without_order(names, windows)
    return make_plan(
        windows, keys, names, shards=shards, emit_late=late, streaming=True, types=TYPES, delay=delay, options=[idle]
    )


PLANS = st.builds(
    idle_plan,
    strategies.models(),
    strategies.KEYS,
    NAMES,
    strategies.SHARDS,
    st.booleans(),
    st.booleans(),
    st.builds(Idle, IDLE, st.booleans()),
)


@settings(max_examples=60)
@given(PLANS, STEPS, LIMITS)
def test_windows_are_those_of_the_naive_watermark(plan: Plan, steps: list[Step], limits: tuple[int, int, int]) -> None:
    """Of all models together: what closes when, and which rows are late after that."""
    policy = plan.feature(Idling)
    assert policy is not None
    clock = Clock(policy.after, [3], plan.delay is None, plan.windows)
    stream, oracle = IdleStream(plan), oracle_of(plan)
    with tiny(*limits), fine_clock():
        for step in steps:
            rows = None if step.rows is None else [shifted(each, oracle.watermark) for each in step.rows]
            stream.clock += step.clock
            spark = clock.spark()
            watermark = clock.watermark(Batch(stream.clock, latest_of(rows), step.drains and policy.drains))
            found, late = stream.step(step, rows, spark)
            expected = oracle.batch(rows or [], watermark)
            check([each for share in found for each in share], expected.answers)
            assert repeated(late) == repeated(expected.late if plan.late_row is not None else [])
            assert stream.total("late_rows") == len(expected.late)
            ahead = max(0, oracle.watermark - spark)
            assert {metrics["idle_ahead"] for metrics in stream.metrics.values()} == {ahead}
            check_state(stream)


OPTIONS: dict[str, list[Option]] = {
    "updates": [Updates(True, None, 7)],
    "updates, seldom": [Updates(True, 3000, None)],
    "late": [Updates(False, None, 30)],
    "active": [Workers("active", 2)],
    "agnostic": [Workers("agnostic", 2, tasks=2)],
    "ordered": [Workers("keyed", 2, ordered=True)],
    "approximate": [Approximation(3, None, 0.5, 0.9)],
    "shed": [Shedding(0.5, None)],
    "compress": [Compression(5)],
    "top": [Top.of(1, "count", True)],
}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_as_with_that_watermark_of_spark(option: str) -> None:
    """The same stream, whose own watermark moves so, has the same results: with every option."""

    @settings(max_examples=12)
    @given(STEPS, st.integers(1, 6), st.integers(1, 6), st.booleans())
    def check_option(steps: list[Step], size: int, slide: int, drains: bool) -> None:
        names = ["count", "median_x"] if option in ("compress", "approximate", "agnostic") else ["count", "sum_n"]
        options, windows = OPTIONS[option], [sliding(3 * size, slide)]
        shards = tuple(range(2))
        common: dict[str, Any] = {"shards": shards, "streaming": True, "types": TYPES, "delay": 3}
        plan = make_plan(windows, ("k",), names, options=[*options, Idle(5, drains)], **common)
        plain = IdleStream(make_plan(windows, ("k",), names, options=options, **common))
        stream, clock, reached = IdleStream(plan), Clock(5, [3], False, plan.windows), 0
        with fine_clock():
            for step in [*steps, Step(None, 1000, False, False)]:
                rows = None if step.rows is None else [shifted(each, reached) for each in step.rows]
                stream.clock += step.clock
                plain.clock = stream.clock
                spark = clock.spark()
                watermark = clock.watermark(Batch(stream.clock, latest_of(rows), step.drains and drains))
                reached = max(reached, watermark)
                expected, _ = plain.send([] if rows is None else pack(plain.plan, [rows]), reached)
                found, _ = stream.step(step, rows, spark)
                assert [sorted(map(repr, share)) for share in found] == [sorted(map(repr, each)) for each in expected]

    check_option()


def test_time_goes_on_in_milliseconds() -> None:
    """Of a minute's windows, with a row at 30 seconds: they close 30 seconds after it, and the delay."""
    plan = make_plan(
        [W.tumbling("1 minute")], streaming=True, delay=2_000_000, options=[Idle.of("10 seconds")], shards=(0, 1)
    )
    stream = IdleStream(plan)
    stream.clock = 1_000_000
    stream.send(pack(plan, [[row(30_000_000)]]), 0)
    for later, closed in ((9_999, 0), (31_999, 0), (32_000, 1), (50_000, 0)):
        stream.clock = 1_000_000 + later
        found, _ = stream.send(without_rows(plan), 28_000_000)
        assert sum(map(len, found)) == closed
    assert stream.total("total_idle_results") == 1
    assert max(metrics.idle_ahead for metrics in stream.metrics.values()) == 50_000_000
    stream.send(pack(plan, [[row(31_000_000), row(61_000_000), row(90_000_000)]]), 28_000_000)
    assert (stream.total("late_rows"), stream.total("rows")) == (1, 3)


def test_a_stream_without_a_row_is_not_idle() -> None:
    plan = make_plan([sliding(10, 10)], streaming=True, delay=0, options=[Idle(1)])
    stream = IdleStream(plan)
    for sent in (without_rows(plan), pack(plan, [[]]), pack(plan, [[row(None)]]), without_rows(plan)):
        stream.clock += 1_000
        stream.send(sent, 0)
    assert stream.store(0).header.watermark == 0


def test_a_task_without_rows_shows_that_there_was_data() -> None:
    """A filter may leave nothing of a batch. Behind a shuffle, tasks run in any case, and only rows show it."""
    for by_rows, closed in ((False, 0), (True, 1)):
        plan = make_plan([sliding(10, 10)], streaming=True, delay=0, options=[Idle(50_000)])
        features = tuple(
            replace(each, by_rows=(by_rows,)) if isinstance(each, Idling) else each for each in plan.features
        )
        plan = replace(plan, features=features)
        stream = IdleStream(plan)
        stream.send(pack(plan, [[row(1)]]), 0)
        stream.clock = 60
        found, _ = stream.send(pack(plan, [[]]), 1)
        assert sum(map(len, found)) == closed


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 4, 9]),
        st.dictionaries(st.integers(0, 1), st.none() | st.integers(0, 60), max_size=2),
    ),
    max_size=9,
)


@settings(max_examples=200)
@given(EVENTS, st.integers(1, 10), st.tuples(st.integers(0, 5), st.integers(0, 5)), st.booleans())
def test_the_watermark_of_two_inputs(
    events: list[tuple[int, dict[int, int | None]]], idle: int, delays: tuple[int, int], own: bool
) -> None:
    """The slowest one counts, and one that is idle goes on with the clock; through the header of the state."""
    clock, naive, known = 0, Clock(idle, delays, own), Inputs.of((), 2)
    with fine_clock():
        for later, latest in events:
            clock += later
            arrived = {number: NO_TIME if time is None else time for number, time in latest.items()}
            spark = naive.spark()
            found = known.watermark(arrived, clock, idle, [None] * 2 if own else delays, spark)
            known = Inputs.of(known.after(arrived, clock).header, 2)
            # A batch before the first row of an input says nothing of it.
            had = {
                number: time for number, time in latest.items() if time is not None or naive._latest(number) is not None
            }
            assert found == naive.watermark(Batch(clock, had))


def test_the_clock_may_go_back() -> None:
    known = Inputs((Input(10, 1_000),))
    assert known.watermark({}, 500, 1, [0], 0) == 0
    assert known.after({0: 5}, 500) == known


def test_what_it_does_not_go_with() -> None:
    marked: Any = Rows({"t": TIME, "mark": TIME})
    by_rows = muntin.over(marked, W.tumbling("1 hour"), time="t", watermark="mark")
    for add in (partial(with_idle, idle="30 seconds"), muntin.Query.drain):
        with pytest.raises(MuntinError, match="is a column in which rows say how far it is"):
            add(by_rows)
    zoned: Any = Rows({"t": TIME, "zone": pa.string()})
    month = W.calendar("1 month", zone_column="zone")
    with pytest.raises(MuntinError, match="does not go with zone_column="):
        muntin.over(zoned, month, time="t", watermark="0 seconds", by="zone").drain().agg(n=A.count())


def test_arguments() -> None:
    assert Idle.of("30 seconds").tick == 7_500_000
    assert Idle.of("1 second").tick == 1_000_000
    assert Idle.of("1 day").tick == 15_000_000
    assert Idle(None, True).tick is None
    plan = make_plan([sliding(10, 10)], options=[Idle(5)])
    assert plan.features == ()  # a table
    streaming = [make_plan([sliding(10, 10)], streaming=True, options=options) for options in ([], [Idle(5)])]
    assert streaming[0].fingerprint == streaming[1].fingerprint
