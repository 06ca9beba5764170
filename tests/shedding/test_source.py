"""Shedding at the source: exact bounds, answers from kept rows alone, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from muntin import MuntinError
from muntin import windows as W
from muntin.bench.coverage_core import Setting, measure
from muntin.engine.features import KeptAtSource, Task
from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.features.ranking.policy import Top
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding.drawn import drawn
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.source import SourceShedding
from muntin.holistic.applied import Applied
from muntin.statistics.counted import all_tuples
from muntin.statistics.guarantees import quantile_interval
from tests import strategies
from tests.builders import Stream, answer, answer_table, make_plan, pack, row, sliding
from tests.naive import Row


def at_source(rate: float, **more: Any) -> Shedding:
    return Shedding.of(rate, None, "uniform", more.pop("seed", 0), more.pop("confidence", 0.95), at="source", **more)


def told(rows: list[Row], names: list[str], rate: float = 0.9, **more: Any) -> dict[Any, dict[str, Any]]:
    """The answers for rows that were kept."""
    plan = make_plan([sliding(10, 10)], ("k",), names, shedding=at_source(rate), **more)
    return dict(each for shard in answer(plan, [rows]) for each in shard)


# Bounds


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("p", [0.5, 0.1, 0.02])
def test_the_number_of_rows_is_covered_for_every_number_where_a_window_is_seen(p: float, confidence: float) -> None:
    """Computed, not drawn. Also where rows that do not count make a window seen of which no other is kept."""
    sizes = np.unique(np.concatenate([np.arange(1, 60), np.geomspace(60, 3000, 40).astype(np.int64)]))
    for size in sizes.tolist():
        k = np.arange(size + 1)
        interval = all_tuples(k, p, confidence)
        covers = (interval.low <= size) & (size <= interval.high)
        chance = binom.pmf(k, size, p)
        for others in (0, 1, 5, 10**9):
            seen = np.where(k == 0, 1 - (1 - p) ** others, 1.0) * chance
            assert seen @ covers >= confidence * seen.sum() - 1e-9, (size, others)
    assert np.all(np.diff(interval.low) >= 0)
    assert np.all(np.diff(interval.high) >= 0)


def test_a_single_row_that_was_kept_may_be_all_there_was() -> None:
    interval = all_tuples(np.array([0, 1, 2]), 0.001, 0.95)
    assert interval.low.tolist() == [0, 1, 52], "of fewer, two are too unlikely"
    assert interval.high[0] == pytest.approx(np.log(0.025) / np.log(0.999), abs=1)
    assert all_tuples(np.array([3]), 1.0, 0.95).high.tolist() == [3]


@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5, 0.9, 0.99])
def test_quantiles_are_covered_for_windows_of_every_size(probability: float) -> None:
    """Computed for distinct values: which places of the sample miss, for every number of rows that there may be."""
    for confidence in (0.79, 0.8, 0.95):
        for n in (1, 2, 3, 5, 10, 40, 117):
            low, high = quantile_interval(n, probability, confidence)
            size = np.arange(n, 2000)
            position = (size - 1) * probability
            up_to, before = np.floor(position) + 1, np.ceil(position)
            too_high = hypergeom.cdf(low, size, up_to, n) if low >= 0 else np.zeros(len(size))
            too_low = hypergeom.sf(high, size, before, n) if high < n else np.zeros(len(size))
            assert np.max(too_high + too_low) <= 1 - confidence + 1e-9, (n, confidence)


@pytest.mark.parametrize(
    "setting",
    [
        Setting("duplicates", 200, 0.9, "source", shuffled=True),
        Setting("lognormal 2", 20, 0.98, "source", groups="singletons", counting="filter of a tenth"),
    ],
)
def test_every_interval_holds(setting: Setting) -> None:
    check_coverage(setting, 2000)


@pytest.mark.extended
@pytest.mark.parametrize("rate", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("made", ["normal", "lognormal 2", "duplicates", "rare ones", "Pareto 1.5"])
def test_every_interval_holds_for_many_distributions(made: str, rate: float) -> None:
    check_coverage(Setting(made, 200, rate, "source", shuffled=True), 5000)
    check_coverage(Setting(made, 200, rate, "source", groups="zipf", counting="half null", panes=4), 2000)


def check_coverage(setting: Setting, windows: int) -> None:
    found = measure(setting, windows, seed=3)
    assert [(each.aggregate, each.confidence, each.share) for each in found if not each.holds] == []
    assert {each.aggregate for each in found if each.given} >= {"count", "min", "max"}
    assert not any(each.given for each in found if each.aggregate in ("sum", "mean", "variance", "deviation"))


# Answers


def kept_rows(rows: int, rate: float, seed: int) -> int:
    batch = pa.record_batch([pa.array(np.zeros(rows))], ["x"])
    return sum(each.num_rows for each in drawn([batch] * 5, KeptAtSource(1 - rate, seed), Task()))


def test_rows_are_drawn_independently_and_again_the_same() -> None:
    assert kept_rows(1000, 0.9, 1) == kept_rows(1000, 0.9, 1) != kept_rows(1000, 0.9, 2)
    kept = np.array([kept_rows(100, 0.9, seed) for seed in range(2000)])
    assert kept.mean() == pytest.approx(50, abs=3 * np.sqrt(45 / 2000))
    assert kept.var() == pytest.approx(45, rel=0.15)
    batch = pa.record_batch([pa.array(np.arange(10_000))], ["x"])
    first, second = (each.column("x").to_pylist() for each in drawn([batch] * 2, KeptAtSource(0.1, 0), Task()))
    assert 60 < len({*first} & {*second}) < 140, "batches do not repeat each other's places"
    (other,) = drawn([batch], KeptAtSource(0.1, 0), Task(number=1))
    assert other.column("x").to_pylist() != first


def test_counts_and_sums_are_unbiased() -> None:
    plan = make_plan([W.tumbling(timedelta(microseconds=10))], (), ["count", "sum_n"], shedding=at_source(0.9))
    rows = [row(window * 10, n=int(window % 7)) for window in range(400) for _ in range(50)]
    kept = [rows[place] for place in np.flatnonzero(np.random.default_rng(4).random(len(rows)) < 0.1)]
    found = [values for shard in answer(plan, [kept]) for _, values in shard]
    deviation = np.sqrt(len(rows) * 0.9 / 0.1)
    assert sum(values["count"] for values in found) == pytest.approx(len(rows), abs=3 * deviation)
    total = sum(each["n"] for each in rows)
    assert sum(values["sum_n"] for values in found) == pytest.approx(total, abs=3 * deviation * 4)


def test_answers_are_scaled_and_say_what_is_known() -> None:
    rows = [row(0, x=float(i), n=i, w="ab"[i % 3 == 0], kept=i < 4) for i in range(40)]
    names = ["count", "count_x", "count_where", "sum_n", "mean_x", "var_samp", "min_x", "max_w", "spread"]
    ((_, values),) = told(rows, [*names, "median_x", "quantiles_n", "mode_w", "top_w"]).items()
    quality = values["quality"]
    assert (values["count"], values["count_x"], values["count_where"], values["sum_n"]) == (400, 400, 40, 7800)
    assert (values["mean_x"], values["min_x"], values["max_w"], values["median_x"]) == (19.5, 0.0, "b", 19.5)
    assert (quality["mode"], quality["sampled"], quality["size"], quality["size_estimated"]) == (
        "approximate",
        40,
        400,
        True,
    )
    assert quality["error"] is None
    low, high = quality["low"], quality["high"]
    assert low["count"] == low["count_x"] < 300 < 500 < high["count"] == high["count_x"]
    assert low["count_where"] < 40 < high["count_where"]
    for name in ("sum_n", "mean_x", "var_samp", "spread"):
        assert low[name] is high[name] is None
    assert (low["min_x"], high["min_x"]) == (None, 0.0)
    assert 0 < low["median_x"] < 19.5 < high["median_x"] < 39
    assert values["mode_w"] == "a"
    assert sorted(each["count"] for each in values["top_w"]) == [140, 260]


@settings(max_examples=25)
@given(
    st.lists(strategies.rows(min_size=1, max_size=60), min_size=1, max_size=3),
    st.sampled_from([0.3, 0.9, 0.98]),
    st.lists(
        st.sampled_from(["count_x", "count_where", "sum_n", "mean_x", "min_x", "median_x", "mode_w", "top_w", "max_w"]),
        min_size=1,
        max_size=4,
        unique=True,
    ),
)
def test_only_counts_have_a_known_error(parts: list[list[Row]], rate: float, names: list[str]) -> None:
    rows = [each for part in parts for each in part]
    counts = {"count", "count_x", "count_where"}
    for values in told(rows, ["count", *names], rate).values():
        quality = values["quality"]
        low, high = quality["low"], quality["high"]
        assert quality["size_estimated"]
        assert quality["sampled"] <= quality["size"] == values["count"] == round(quality["sampled"] / (1 - rate))
        asked = counts & {"count", *names}
        for name in asked:
            assert low[name] <= values[name] <= high[name]
        if {*names} - counts or any(not low[name] for name in asked):
            assert quality["error"] is None
        else:
            off = [max(values[name] / low[name] - 1, 1 - values[name] / high[name]) for name in asked]
            assert quality["error"] == pytest.approx(max(off))


def test_a_count_alone_has_an_error_that_covers_its_interval() -> None:
    ((_, values),) = told([row(0)] * 100, ["count"]).items()
    quality = values["quality"]
    low, high = quality["low"]["count"], quality["high"]["count"]
    assert quality["error"] == pytest.approx(max(1000 / low - 1, 1 - 1000 / high))


def test_nothing_is_certain_where_equal_rows_share_their_fate() -> None:
    plan = make_plan([sliding(10, 10)], ("k",), ["count", "median_x", "min_x"], shedding=at_source(0.9))
    (feature,) = (feature for feature in plan.features if isinstance(feature, SourceShedding))
    plan = replace(
        plan, features=tuple(replace(each, apart=False) if each is feature else each for each in plan.features)
    )
    ((_, values),) = (each for shard in answer(plan, [[row(0, x=float(i)) for i in range(40)]]) for each in shard)
    quality = values["quality"]
    assert (values["count"], values["median_x"], quality["error"]) == (400, 19.5, None)
    assert quality["low"] == {"count": None, "median_x": None, "min_x": None}
    assert quality["high"] == {"count": None, "median_x": None, "min_x": 0.0}


def test_a_rate_of_0_is_exact() -> None:
    ((_, values),) = told([row(0, x=float(i)) for i in range(5)], ["count", "median_x"], 0).items()
    assert (values["count"], values["median_x"]) == (5, 2.0)
    assert values["quality"]["mode"] == "exact"
    assert values["quality"]["error"] == 0
    assert values["quality"]["size_estimated"] is False


def test_functions_get_the_kept_rows_and_the_size_is_an_estimate() -> None:
    applied = Applied(lambda table: table.select(["x"]).slice(0, 2), pa.schema([("x", pa.float64())]), ("x",), "arrow")
    plan = make_plan([sliding(10, 10)], ("k",), (), shedding=at_source(0.9), applied=applied)
    sent = pack(plan, [[row(0, x=float(i)) for i in range(7)]])
    (rows,) = answer_table(plan, sent)
    assert rows.column("x").to_pylist() == [0.0, 1.0]
    for quality in rows.column("quality").to_pylist():
        assert (quality["mode"], quality["error"], quality["sampled"], quality["size"]) == ("approximate", None, 7, 70)
        assert quality["size_estimated"]


def test_a_stream_answers_alike_and_reports_estimates() -> None:
    rows = [row(t, k, x=float(t)) for t in range(40) for k in "abc" for _ in range(3)]
    names = ["count", "median_x"]
    alone = told(rows, names)
    plan = make_plan([sliding(10, 10)], ("k",), names, shedding=at_source(0.9), streaming=True)
    stream = Stream(plan)
    results, _ = stream.batch(rows, 40)
    assert {place: values for shard in results for place, values in shard} == alone
    metrics: Metrics = stream.metrics[0]
    assert metrics["rows"] == 360
    assert metrics["source_shed_rows"] == 3240
    assert metrics["shed_rate"] == 900_000
    assert metrics["window_rows"] == 10 * metrics["window_kept_rows"] == 3600
    assert metrics["approximate_windows"] == len(alone)
    assert metrics["windows_with_error"] == 0


# What is refused


@pytest.mark.parametrize(
    ("option", "named"),
    [(Approximation.of(10, 0.1, 0.95, None, "l1", True, 0), "approximate"), (Top.of(1, "count", True), "top")],
)
def test_options_that_need_every_row_are_refused(option: Any, named: str) -> None:
    with pytest.raises(MuntinError, match=f"{named}.*at='panes'"):
        make_plan([sliding(10, 10)], ("k",), ["count", "median_x"], shedding=at_source(0.9), options=[option])


@pytest.mark.parametrize("name", ["first_x", "argmin_time", "max_count", "distinct_w"])
def test_aggregates_of_single_rows_are_refused(name: str) -> None:
    with pytest.raises(MuntinError, match="cannot be computed under shed"):
        make_plan([sliding(10, 10)], ("k",), [name], shedding=at_source(0.9))


def test_the_state_belongs_to_where_and_how_much_is_shed() -> None:
    def plan(shedding: Shedding | None) -> Plan:
        return make_plan([sliding(10, 10)], ("k",), ["count", "median_x"], shedding=shedding)

    uniform = Shedding.of(0.9, None, "uniform", 0, 0.95)
    plans = [plan(each) for each in (None, uniform, at_source(0.9), at_source(0.8))]
    assert len({each.fingerprint for each in plans}) == 4
    (feature,) = plans[2].features
    assert isinstance(feature, SourceShedding)
    together = replace(plans[2], features=(replace(feature, apart=False),))
    assert together.fingerprint != plans[2].fingerprint
    assert plan(at_source(0.9, seed=5, confidence=0.8)).fingerprint == plans[2].fingerprint
