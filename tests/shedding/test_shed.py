"""Queries that shed, without an engine: what stays exact, what is counted, and what a replay gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import MuntinError
from muntin import windows as W
from muntin.engine.map_stage import PackedPanes, PaneStage
from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.engine.store import HotCache
from muntin.features.compression.policy import Compression
from muntin.features.sampling.feature import Sampling
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding import feature as shed_feature
from muntin.features.shedding.feature import LoadShedding
from muntin.features.shedding.policy import Method, Shedding
from muntin.holistic import weighted
from muntin.holistic.applied import Applied
from muntin.holistic.contents import WindowContents
from muntin.holistic.frequent import TopK
from muntin.holistic.quantiles import Quantiles
from muntin.panes.tuples import WEIGHT, Tuples
from tests import naive, strategies
from tests.builders import (
    NEVER_COMPRESSED,
    Step,
    Stream,
    answer,
    answer_table,
    by_shard,
    make_plan,
    pack,
    read,
    row,
    sliding,
    tiny,
)
from tests.naive import Row
from tests.stages.test_models import LIMITS

DECOMPOSABLE = ["count", "count_x", "sum_n", "sum_x", "mean_x", "var_pop", "stddev_samp", "min_x", "max_w"]
FILTERED = ["count_where", "sum_where", "max_where"]
OTHERS = ["composed", "spread", "median_x", "quantiles_n", "p90_where", "mode_w", "top_w"]
NAMES = st.lists(st.sampled_from([*DECOMPOSABLE, *FILTERED, *OTHERS]), min_size=1, max_size=4, unique=True)
RATES = st.sampled_from([0.3, 0.9, 0.98, 0.9999])
KEYS = st.sampled_from([(), ("k",), ("k", "f"), ("s",)])
STEPS = strategies.steps(strategies.rows(st.none() | st.integers(-40, 30)), [0, 1, 7, 20, 60], max_size=6)


def policy(rate: float, method: Method = "concept", seed: int = 0, incremental: bool = False) -> Shedding:
    return Shedding(rate, None, method, seed, incremental=incremental)


@st.composite
def plans(draw: st.DrawFn, rates: st.SearchStrategy[float] = RATES, method: Method | None = None) -> Plan:
    windows, names = draw(strategies.windows()), draw(NAMES)
    chosen: Method = draw(st.sampled_from(["concept", "uniform"])) if method is None else method
    approximation = draw(st.none() | st.just(Approximation.of(5, 0.3, 0.8, None, "l1", True, 0)))
    compression = draw(st.sampled_from([NEVER_COMPRESSED, Compression(after=0)]))
    return make_plan(
        windows,
        draw(KEYS),
        ["count", *(name for name in names if name != "count")],
        shards=draw(strategies.SHARDS),
        streaming=True,
        approximation=approximation,
        compression=compression,
        shedding=policy(draw(rates), chosen, draw(st.integers(0, 3)), draw(st.booleans())),
    )


def counting(plan: Plan) -> Plan:
    """The number of tuples of every window, without shedding."""
    return make_plan(plan.windows, plan.keys, ["count"], shards=plan.shards, streaming=True)


@settings(max_examples=40)
@given(plans(), STEPS, LIMITS, st.integers(1, 30))
def test_every_group_of_every_window_appears_with_its_exact_count(
    plan: Plan, steps: list[Step], limits: tuple[int, int, int], gathered: int
) -> None:
    """At any rate, on streams with late rows, cold starts and replays; and shed plus kept equals received."""
    shed, plain = Stream(plan), Stream(counting(plan))
    watermark, received = 0, 0
    with tiny(*limits), pytest.MonkeyPatch.context() as patch:
        patch.setattr(shed_feature, "ROWS_TOGETHER", gathered)
        patch.setattr(weighted, "MOST_TUPLES", limits[2])
        for step in [*steps, Step([], 1000, 1, False, False)]:
            rows = [{**each, "t": None if each["t"] is None else each["t"] + watermark} for each in step.rows]
            watermark += step.advance
            found, expected = (stream.run(step, rows, watermark)[0] for stream in (shed, plain))
            results = [dict(each) for each in found]
            for ours, theirs in zip(results, map(dict, expected), strict=True):
                assert {place: values["count"] for place, values in ours.items()} == {
                    place: values["count"] for place, values in theirs.items()
                }
                for values in ours.values():
                    check_quality(values)
            received += len([each for each in rows if each["t"] is not None])
            for name in ("rows", "late_rows", "invalid_rows", "outside_rows"):
                assert shed.total(f"total_{name}") == plain.total(f"total_{name}")
    assert shed.total("total_rows") + shed.total("total_outside_rows") == received
    assert 0 <= shed.total("total_shed_rows") <= shed.total("total_rows")


def check_quality(values: dict[str, Any]) -> None:
    quality = values["quality"]
    assert 0 <= quality["sampled"] <= quality["size"] == values["count"]
    if quality["sampled"] < quality["size"]:
        assert quality["mode"] == "approximate"
        assert quality["error"] is None or quality["error"] >= 0
        assert quality["low"]["count"] == quality["high"]["count"] == values["count"]
    for name, low in quality["low"].items():
        high = quality["high"][name]
        if isinstance(low, float) and isinstance(high, float) and isinstance(values[name], float | int):
            assert low <= high or np.isnan(low) or np.isnan(high)


@settings(max_examples=20)
@given(plans(st.just(0.0)), STEPS)
def test_at_a_rate_of_zero_nothing_changes(plan: Plan, steps: list[Step]) -> None:
    names = [output.name for output in plan.outputs]
    shed = Stream(
        replace(plan)
        if plan.feature(Sampling) is None
        else make_plan(plan.windows, plan.keys, names, shards=plan.shards, streaming=True, shedding=shedding_of(plan))
    )
    plain = Stream(make_plan(plan.windows, plan.keys, names, shards=plan.shards, streaming=True))
    watermark = 0
    for step in [*steps, Step([], 1000, 1, False, False)]:
        rows = [{**each, "t": None if each["t"] is None else each["t"] + watermark} for each in step.rows]
        watermark += step.advance
        found, expected = (stream.run(step, rows, watermark)[0] for stream in (shed, plain))
        for ours, theirs in zip(found, expected, strict=True):
            # Windows come in order; the groups of one may not, as other bytes arrive in another order.
            assert [place[:4] for place, _ in ours] == [place[:4] for place, _ in theirs]
            assert len(ours) == len(dict(ours))
            assert dict(ours).keys() == dict(theirs).keys()
            for place, values in ours:
                assert values.pop("quality")["mode"] in ("exact", "incremental")
                assert all(naive.same(values[name], dict(theirs)[place][name]) for name in names)
    assert shed.total("total_shed_rows") == 0


@settings(max_examples=20)
@given(plans(), STEPS)
def test_a_replay_and_a_cold_start_give_the_same(plan: Plan, steps: list[Step]) -> None:
    once, again = Stream(plan), Stream(plan)
    watermark = 0
    for step in [*steps, Step([], 1000, 1, False, False)]:
        rows = [{**each, "t": None if each["t"] is None else each["t"] + watermark} for each in step.rows]
        watermark += step.advance
        again.cache = HotCache(capacity=8)
        before = again.snapshot()
        again.batch(rows, watermark, step.tasks)
        again.restore(before)
        found, same = (stream.batch(rows, watermark, step.tasks) for stream in (once, again))
        assert in_order(found) == in_order(same)


def in_order(found: Any) -> str:
    """Keys of one window come in any order: a cold start may number them differently."""
    results, late = found
    return repr(([sorted(each, key=repr) for each in results], late))


@given(strategies.rows(min_size=1), RATES, st.sampled_from(["concept", "uniform"]))
def test_shed_plus_kept_equals_received(rows: list[Row], rate: float, method: Method) -> None:
    plan = make_plan([sliding(10, 5)], ("k",), ["count", "median_x"], shedding=policy(rate, method))
    sent = pack(plan, [rows])
    kept = sum(len(each.tuples) for each in tables(plan, sent) if each.tuples is not None)
    assert sum(each.rows for each in sent) == len(rows)
    assert sum(shed_rows(each) for each in sent) + kept == len(rows)


def shedding_of(plan: Plan) -> Shedding:
    feature = plan.feature(LoadShedding)
    assert feature is not None
    return feature.policy


def shed_rows(sent: PackedPanes) -> int:
    return int(sent.read_notes()["shed"]["rows"])


def tables(plan: Plan, sent: list[Any]) -> list[Any]:
    from muntin.panes import packed

    return [packed.unpack(plan.layout, each.panes) for each in sent if each.panes is not None]


def test_the_rate_is_that_of_the_tuples_where_groups_are_large() -> None:
    rows = [row(i % 100, "ab"[i % 2], x=float(i)) for i in range(20_000)]
    for method in ("concept", "uniform"):
        plan = make_plan([sliding(100, 100)], ("k",), ["sum_x"], shedding=policy(0.9, method))
        (found,) = answer(plan, [rows])
        sampled = sum(values["quality"]["sampled"] for _, values in found)
        assert abs(sampled / 20_000 - 0.1) < 0.01
        for (place, values), total in zip(found, (sum(range(0, 20_000, 2)), sum(range(1, 20_000, 2))), strict=True):
            assert place[4] in (("a",), ("b",))
            assert values["sum_x"] == pytest.approx(total, rel=0.1)
            assert values["quality"]["low"]["sum_x"] < total < values["quality"]["high"]["sum_x"]


def test_integer_sums_stay_integers_and_tell_an_overflow() -> None:
    rows = [row(0, n=3) for _ in range(1000)]
    plan = make_plan([sliding(10, 10)], ("k",), ["sum_n"], shedding=policy(0.9))
    ((_, values),) = next(answer(plan, [rows]))
    assert values["sum_n"] == 3000
    with pytest.raises(MuntinError, match="overflows"):
        list(answer(plan, [[row(0, n=1 << 60) for _ in range(1000)]]))


def test_a_function_gets_what_was_kept() -> None:
    function = Applied(lambda t: pa.table({"n": [t.num_rows]}), pa.schema([("n", pa.int64())]), ("x",), "arrow")
    plan = make_plan([sliding(10, 10)], ("k",), [], applied=function, shedding=policy(0.9))
    ((_, values),) = next(answer(plan, [[row(0) for _ in range(1000)]]))
    assert values["n"] == values["quality"]["sampled"] == 100
    assert values["quality"]["size"] == 1000
    assert values["quality"]["mode"] == "approximate"
    assert values["quality"]["error"] is None


def test_windows_that_their_tuples_make_cannot_shed() -> None:
    for window in (W.session("1 minute"), W.count(5), W.slide_by_tuple("1 minute", 2), W.delta("x", 1, 1)):
        with pytest.raises(MuntinError, match="depends on its tuples"):
            make_plan([window], shedding=policy(0.5))


@pytest.mark.parametrize(
    "name", ["first_x", "last_n", "argmin_w_by_x", "argmax_time", "min_count", "max_count", "distinct_n"]
)
def test_what_single_tuples_decide_is_refused(name: str) -> None:
    with pytest.raises(MuntinError, match=f"{name} cannot be computed under shed"):
        make_plan([sliding(10, 10)], names=[name], shedding=policy(0.5))


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"rate": 1.0}, "rate must be a number from 0 to below 1"),
        ({"rate": -0.1}, "rate must be"),
        ({"rate": True}, "rate must be"),
        ({"rate": "0.5"}, "rate must be"),
        ({}, "needs a rate"),
        ({"rate": 0.5, "target_latency": "2 seconds"}, "both rate and target_latency"),
        ({"target_latency": "0 seconds"}, "target_latency"),
        ({"target_latency": "soon"}, "target_latency"),
        ({"rate": 0.5, "method": "random"}, "method is 'random'"),
        ({"rate": 0.5, "seed": 1.5}, "seed must be"),
        ({"rate": 0.5, "confidence": 1.0}, "confidence must be"),
    ],
)
def test_bad_knobs(given_: dict[str, Any], says: str) -> None:
    knobs = {"rate": None, "target_latency": None, "method": "concept", "seed": 0, "confidence": 0.95, **given_}
    with pytest.raises(MuntinError, match=says):
        Shedding.of(**knobs)


# Tuples that stand for others


WEIGHTED = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=12)


def held(windows: list[list[tuple[int, int]]]) -> tuple[WindowContents, WindowContents]:
    """Tuples with weights, and each of them as often as its weight says."""
    both = []
    for repeated in (False, True):
        x, weights, key = [], [], []
        for number, window in enumerate(windows):
            for value, weight in window:
                count = weight if repeated else 1
                x += [float(value)] * count
                key += [number] * count
                weights += [1.0 if repeated else float(weight)] * count
        columns = pa.record_batch([pa.array(x), pa.array(weights)], names=["x", WEIGHT])
        keys = np.array(key)
        edges = np.searchsorted(keys, np.arange(len(windows) + 1))
        both.append(WindowContents(Tuples(keys, np.arange(len(keys)), columns), edges[:-1], edges[1:]))
    return both[0], both[1]


@given(st.lists(WEIGHTED, min_size=1, max_size=4), st.integers(1, 20))
def test_weighted_answers_are_those_of_repeated_tuples(windows: list[list[tuple[int, int]]], most: int) -> None:
    weighed, repeated = held(windows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted, "MOST_TUPLES", most)
        for whole in (Quantiles("x", None, (0.0, 0.3, 0.5, 0.9, 1.0), True), TopK("x", None, 2)):
            assert whole.compute(weighed).to_pylist() == whole.compute(repeated).to_pylist()


@pytest.mark.parametrize("method", ["concept", "uniform"])
def test_intervals_of_quantiles_cover(method: Method) -> None:
    """400 windows of 1,000 tuples in two panes of unlike sizes; at least 95 % less four deviations (4.4 points)."""
    random = np.random.default_rng(3)
    times = np.tile(np.append(np.zeros(900, np.int64), np.full(100, 5)), 400) + np.repeat(np.arange(400) * 10, 1000)
    x = random.lognormal(0, 1, len(times))
    plan = make_plan([sliding(10, 10), sliding(5, 5, name="pane")], (), ["median_x"], shedding=policy(0.95, method))
    columns = [pa.array(times).cast(plan.types["t"]), pa.array(x)]
    batch = pa.record_batch(columns, names=["t", "x"])
    metrics = Metrics()
    (share,) = by_shard(plan, list(PaneStage(plan).run([batch]))).values()
    results = [each for each in read(plan, answer_table(plan, share, metrics))[0] if each[0][2] != "pane"]
    truth = np.median(x.reshape(400, 1000), axis=1)
    assert len(results) == 400
    covered = [
        values["quality"]["low"]["median_x"] <= truth[place[1] // 10] <= values["quality"]["high"]["median_x"]
        for place, values in results
    ]
    assert np.mean(covered) >= 0.95 - 0.044
    assert all(values["quality"]["error"] is None for _, values in results), "a rank has no relative error"
    assert metrics.approximate_windows == metrics.results
    assert metrics.shed_rate == 950_000
