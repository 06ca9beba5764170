"""What `quality` says where tuples were shed: nothing that reassures falsely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.features.shedding.policy import Method, Shedding
from muntin.holistic.applied import Applied
from muntin.holistic.contents import WindowContents
from muntin.panes.tuples import WEIGHT, Tuples
from muntin.spark.metrics import Progress
from muntin.statistics.frequencies import missed_in_kept
from muntin.statistics.guarantees import rank_error
from tests import strategies
from tests.builders import Stream, answer, answer_table, by_shard, make_plan, pack, read, row, sliding
from tests.naive import Row

METHODS: list[Method] = ["concept", "uniform"]
NUMBERS = ["count_x", "sum_n", "sum_x", "mean_x", "var_pop", "stddev_samp", "min_x", "median_x", "count_where"]
OTHERS = ["max_w", "spread", "quantiles_n", "mode_w", "top_w", "sum_where"]
NAMES = [*NUMBERS, *OTHERS]


def of_kept(rate: float, method: Method = "concept") -> Shedding:
    """Aggregates see only what was kept."""
    return Shedding(rate, None, method, incremental=False)


def told(rows: list[Row], names: list[str], rate: float, method: Method, **more: Any) -> list[dict[str, Any]]:
    plan = make_plan([sliding(10, 10)], ("k",), names, shedding=of_kept(rate, method), **more)
    return [values for shard in answer(plan, [rows]) for _, values in shard]


# The error of a row


@pytest.mark.parametrize("method", METHODS)
def test_a_mean_near_0_has_no_error_and_a_count_beside_it_does_not_hide_that(method: Method) -> None:
    rows = [row(0, x=float(each)) for each in np.random.default_rng(1).permutation([-1, 1] * 500)]
    (values,) = told(rows, ["count", "mean_x"], 0.9, method)
    assert values["count"] == values["quality"]["size"] == 1000
    assert values["quality"]["sampled"] == 100
    assert values["quality"]["low"]["mean_x"] < 0 < values["quality"]["high"]["mean_x"]
    assert values["quality"]["error"] is None


def batches(rows: list[Row], plan: Plan) -> dict[Any, dict[str, Any]]:
    return dict(each for shard in answer(plan, [rows]) for each in shard)


@settings(max_examples=60)
@given(
    st.lists(strategies.rows(min_size=1, max_size=60), min_size=1, max_size=3),
    st.sampled_from([0.3, 0.9, 0.98]),
    st.sampled_from(METHODS),
    st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True),
)
def test_the_error_of_a_row_is_the_largest_of_its_aggregates_and_unknown_if_one_is(
    parts: list[list[Row]], rate: float, method: Method, names: list[str]
) -> None:
    """What is kept does not depend on what is asked, so that one aggregate alone has the error that it has beside
    others.
    """
    rows = [each for part in parts for each in part]

    def errors(*asked: str) -> dict[Any, float | None]:
        plan = make_plan([sliding(10, 5)], ("k",), asked, shedding=of_kept(rate, method))
        return {place: values["quality"]["error"] for place, values in batches(rows, plan).items()}

    together, alone = errors("count", *names), [errors(name) for name in names]
    for place, error in together.items():
        each = [found[place] for found in alone]
        known = [one for one in each if one is not None]
        assert error == (max(known) if len(known) == len(each) else None)


# What was kept may tell nothing of the rest


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 0.1, -7e5])
def test_values_that_are_kept_all_alike_do_not_hide_another(method: Method, value: float) -> None:
    rows = [row(i % 10, x=value, n=int(value)) for i in range(9_999)] + [row(5, x=100.0, n=100)]
    truths = {"mean_x": (9_999 * value + 100) / 10_000, "sum_n": 9_999 * int(value) + 100}
    for name in ["mean_x", "sum_n", "var_pop", "stddev_samp", "median_x", "quantiles_n", "min_x"]:
        (values,) = told(rows, ["count", name], 0.99, method)
        quality = values["quality"]
        low, high = quality["low"][name], quality["high"][name]
        assert quality["sampled"] < quality["size"] == 10_000
        if name in truths:
            assert low < truths[name] < high
        elif name == "min_x":
            assert (low, high) == (None, value)
        else:
            assert low == high == ([None] * 4 if name == "quantiles_n" else None)
        assert quality["error"] is None or name in truths, name


def test_two_zeros_of_a_hundred_say_nothing_of_the_mean() -> None:
    rows = [row(0, x=0.0) for _ in range(99)] + [row(0, x=100.0)]
    (values,) = told(rows, ["mean_x"], 0.999, "concept")
    quality = values["quality"]
    assert values["mean_x"] == 0
    assert (quality["sampled"], quality["size"]) == (2, 100)
    assert quality["low"]["mean_x"] <= 0 < 1 < quality["high"]["mean_x"]
    assert quality["error"] is None


def test_panes_that_are_complete_do_not_make_up_for_those_that_are_not() -> None:
    """Of one pane all is kept; of the other two of many."""
    rows = [row(0, x=1.0), row(0, x=5.0), *(row(5, x=float(i % 2)) for i in range(500))]
    plan = make_plan(
        [sliding(10, 10), sliding(5, 5, name="pane")], ("k",), ["mean_x", "sum_x"], shedding=of_kept(0.999)
    )
    (found,) = answer(plan, [rows])
    quality = {place[:3]: values["quality"] for place, values in found}
    complete = quality.pop((5, 0, "pane"))
    assert complete["low"] == complete["high"] == {"mean_x": 3.0, "sum_x": 6.0}
    assert complete["error"] == 0
    for (_, _, name), each in quality.items():
        total = 250 if name == "pane" else 256
        assert each["low"]["sum_x"] < total < each["high"]["sum_x"]
        assert each["error"] is None or each["error"] > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fulfils", [True, False])
def test_how_many_fulfil_a_condition_is_known(method: Method, fulfils: bool) -> None:
    rows = [row(0, x=float(i), n=i, kept=fulfils or i == 7) for i in range(2000)]
    (values,) = told(rows, ["count_where"], 0.95, method)
    expected = 2000 if fulfils else 1
    assert values["count_where"] == values["quality"]["low"]["count_where"] == expected
    assert values["quality"]["high"]["count_where"] == expected
    (values,) = told(rows, ["count_where", "sum_where"], 0.95, method)
    if not fulfils:
        assert values["count_where"] == 1
        assert values["sum_where"] in (None, 7), "the only one may have been shed"
    else:
        assert values["quality"]["low"]["sum_where"] < 1999 * 1000 < values["quality"]["high"]["sum_where"]


@settings(max_examples=60)
@given(
    strategies.rows(min_size=1, max_size=80),
    st.sampled_from([0.3, 0.9, 0.98]),
    st.sampled_from(METHODS),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
    st.booleans(),
)
def test_the_error_follows_from_values_and_bounds(
    rows: list[Row], rate: float, method: Method, names: list[str], incremental: bool
) -> None:
    shedding = Shedding(rate, None, method, incremental=incremental)
    plan = make_plan([sliding(10, 5)], ("k",), ["count", *names], shedding=shedding)
    plain = batches(rows, make_plan([sliding(10, 5)], ("k",), ["count", *names]))
    for place, values in batches(rows, plan).items():
        quality = values["quality"]
        low, high, error = quality["low"], quality["high"], quality["error"]
        assert low["count"] == high["count"] == values["count"] == quality["size"]
        assert error is None or error >= 0
        if quality["sampled"] == quality["size"]:
            assert error == 0
        for name in names:
            value = values[name]
            if incremental and name not in ("median_x", "quantiles_n", "mode_w", "top_w") and name != "spread":
                assert same(value, plain[place][name]), "panes see all rows"
                if name in low:
                    assert same(low[name], value)
                    assert same(high[name], value)
            elif name in low and not isinstance(low[name], list) and value is not None:
                sides = (low[name], high[name])
                if None in sides or not np.isfinite(sides).all():
                    assert error is None or quality["sampled"] == quality["size"], "what is unknown is not small"
                    continue
                assert sides[0] <= value + 1e-9
                assert value - 1e-9 <= sides[1]
                assert sides[0] < sides[1] or name in ("count_x", "count_where") or same(value, plain[place][name])
                if error is not None and sides[0] > 0:
                    assert (error + 1e-9) * sides[0] >= value - sides[0]
                    assert (error + 1e-9) * sides[1] >= sides[1] - value


def same(one: Any, other: Any) -> bool:
    """Equal up to rounding; sums of floats depend on their order."""
    if one is None or other is None or isinstance(one, str | dict | list):
        return bool(one == other)
    return bool(np.isclose(float(one), float(other), rtol=1e-9, atol=1e-9, equal_nan=True))


# Shares


@given(st.integers(1, 40), st.integers(1, 400), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_errors_of_ranks_are_shares(sampled: int, size: int, probability: float) -> None:
    n = np.array([min(sampled, size), 0])
    first, nothing = rank_error(n, np.array([size, size]), probability, 0.999)
    assert 0 <= first <= 1
    assert nothing == np.inf
    (alone,) = rank_error(n[:1], np.array([size]), probability, 0.999)
    assert 0 <= alone <= 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.sampled_from([1.0, 20.0]), st.booleans())
def test_errors_of_frequencies_are_shares(x: list[int], weight: float, as_list: bool) -> None:
    columns = pa.record_batch([pa.array(x), pa.array([weight] * len(x))], names=["x", WEIGHT])
    keys = np.zeros(len(x), dtype=np.int64)
    held = WindowContents(Tuples(keys, np.arange(len(x)), columns), np.zeros(1, dtype=np.int64), np.array([len(x)]))
    (error,) = missed_in_kept(held.selected("x", None), 1, as_list, 0.95)
    assert 0 <= error <= 1


@settings(max_examples=40)
@given(strategies.rows(min_size=1, max_size=80), st.sampled_from([0.3, 0.9]), st.sampled_from(METHODS))
def test_no_value_is_more_frequent_than_there_are_tuples(rows: list[Row], rate: float, method: Method) -> None:
    plan = make_plan([sliding(10, 5)], ("k",), ["count", "top_w", "mode_w"], shedding=of_kept(rate, method))
    for values in batches(rows, plan).values():
        assert sum(each["count"] for each in values["top_w"] or []) <= values["count"] + 1  # rounded, of two values
        error = values["quality"]["error"]
        assert error is None or 0 <= error <= 1


def test_a_window_of_which_all_is_kept_by_chance_is_exact() -> None:
    """Each stands for ten others elsewhere, and here for itself."""
    rows = [row(i // 2, x=float(i), n=i, w="ab"[i % 2]) for i in range(2000)]
    names = ["count", "quantiles_n", "median_x", "top_w", "mean_x"]
    windows = [sliding(1, 1)]
    found = batches(rows, make_plan(windows, ("k",), names, shedding=of_kept(0.6, "uniform")))
    plain = batches(rows, make_plan(windows, ("k",), names))
    whole = [place for place, values in found.items() if values["quality"]["sampled"] == 2]
    assert len(whole) > 50
    for place in whole:
        quality = found[place].pop("quality")
        assert found[place] == plain[place]
        assert (quality["mode"], quality["error"]) == ("exact", 0)


# By default


@pytest.mark.parametrize("method", METHODS)
def test_what_panes_answer_is_exact_and_only_what_needs_rows_is_shed(method: Method) -> None:
    random = np.random.default_rng(3)
    rows = [row(i % 50, f"k{i % 7}", x=float(x), n=i) for i, x in enumerate(random.lognormal(0, 2, 3000))]
    exactly = ["count", "count_where", "sum_x", "mean_x", "var_samp", "min_x", "max_w", "first_x", "argmin_w_by_x"]
    names = [*exactly, "spread", "median_x"]
    shed = batches(rows, make_plan([sliding(10, 5)], ("k",), names, shedding=Shedding(0.9, None, method)))
    plain = batches(rows, make_plan([sliding(10, 5)], ("k",), names))
    assert shed.keys() == plain.keys()
    for place, values in shed.items():
        quality = values["quality"]
        assert all(same(values[name], plain[place][name]) for name in exactly)
        assert all(same(quality["low"][name], quality["high"][name]) for name in ("sum_x", "mean_x", "var_samp"))
        assert quality["mode"] == "approximate"
        assert quality["sampled"] < quality["size"]
        assert quality["error"] is None, "that of a rank, relative to the value"
    assert sum(values["quality"]["sampled"] for values in shed.values()) < 0.12 * 2 * len(rows)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_shed_where_panes_answer_everything(method: Method) -> None:
    rows = [row(0, x=float(each)) for each in np.random.default_rng(1).permutation([-1, 1] * 500)]
    plan = make_plan([sliding(10, 10)], ("k",), ["count", "mean_x"], shedding=Shedding(0.9, None, method))
    (values,) = batches(rows, plan).values()
    quality = values["quality"]
    assert values["count"] == quality["size"] == quality["sampled"] == 1000
    assert values["mean_x"] == quality["low"]["mean_x"] == quality["high"]["mean_x"] == 0
    assert (quality["mode"], quality["error"], quality["confidence"]) == ("incremental", 0, 1)


# Windows of which nothing was kept


def test_uniform_shedding_tells_every_group_and_how_many_tuples_it_has() -> None:
    rows = [row(i % 50, f"k{i % 1000}", x=float(i), n=i) for i in range(3000)]
    names = ["count", "count_where", "mean_x", "sum_n", "var_pop", "min_x", "max_w", "spread", "median_x", "top_w"]
    plan = make_plan([sliding(10, 10)], ("k",), names, shedding=of_kept(0.9, "uniform"), shards=(0, 1))
    found = batches(rows, plan)
    plain = batches(rows, make_plan([sliding(10, 10)], ("k",), ["count"], shards=(0, 1)))
    assert {place: values["count"] for place, values in found.items()} == {
        place: values["count"] for place, values in plain.items()
    }
    assert sum(values["quality"]["sampled"] for values in found.values()) == 300
    silent = [values for values in found.values() if not values["quality"]["sampled"]]
    assert len(silent) > 100
    for values in silent:
        quality = values.pop("quality")
        assert values.pop("count") == values.pop("count_where") == quality["size"] > 0
        assert set(values.values()) == {None}
        assert (quality["mode"], quality["error"]) == ("approximate", None)
        for side in ("low", "high"):
            assert set(quality[side].values()) == {None, float(quality["size"])}, "the count is certain"


def test_a_function_is_not_called_for_a_window_of_which_nothing_was_kept() -> None:
    given_: list[int] = []

    def counted(t: pa.Table) -> pa.Table:
        given_.append(t.num_rows)
        return pa.table({"n": [t.num_rows]})

    function = Applied(counted, pa.schema([("n", pa.int64())]), ("x",), "arrow")
    plan = make_plan([sliding(1, 1)], ("k",), [], applied=function, shedding=Shedding(0.9, None, "uniform"))
    found = batches([row(i % 100) for i in range(300)], plan)
    assert len(found) == 100
    assert min(given_) > 0
    assert sum(given_) == 30
    for values in found.values():
        assert values["n"] == (values["quality"]["sampled"] or None)
        assert values["quality"]["size"] == 3
        assert values["quality"]["error"] == (0 if values["quality"]["sampled"] == 3 else None)


# Metrics


def metrics_of(rows: list[Row], names: list[str], rate: float) -> Metrics:
    plan = make_plan([sliding(10, 10)], ("k",), names, shedding=of_kept(rate))
    metrics = Metrics()
    (share,) = by_shard(plan, pack(plan, [rows])).values()
    read(plan, answer_table(plan, share, metrics))
    return metrics


def progress(metrics: Metrics) -> Progress:
    return Progress(
        batch_approximate_windows=metrics.approximate_windows,
        error_millionths=metrics.error_millionths,
        windows_with_error=metrics.windows_with_error,
    )


def test_an_unknown_error_does_not_count_as_small_in_the_metrics() -> None:
    known = [row(0, "a", x=float(50 + i % 7)) for i in range(1000)]
    mixed = [row(0, "b", x=float(i % 2 * 2 - 1)) for i in range(1000)]
    told_ = progress(metrics_of(known, ["mean_x"], 0.9))
    assert told_.windows_without_error == 0
    assert told_.estimated_error is not None
    assert 0 < told_.estimated_error < 0.05
    told_ = progress(metrics_of(known + mixed, ["mean_x"], 0.9))
    assert told_.windows_without_error == 1
    assert told_.estimated_error is None


def test_a_stream_of_rates_counts_what_was_received() -> None:
    """A window of batches with unlike rates, of which nothing is kept in the second, is not complete."""
    plan = make_plan(
        [sliding(10, 10)], ("k",), ["median_x", "mode_w"], streaming=True, shedding=Shedding(0.0, None, "uniform")
    )
    stream = Stream(plan)
    stream.batch([row(0, x=float(i)) for i in range(8)], 0)
    stream.plan = make_plan(
        [sliding(10, 10)], ("k",), ["median_x", "mode_w"], streaming=True, shedding=Shedding(0.9999, None, "uniform")
    )
    stream.batch([row(1, x=100.0) for _ in range(20)], 1)
    ((_, values),) = stream.batch([], 1000)[0][0]
    quality = values["quality"]
    assert (quality["sampled"], quality["size"], quality["mode"]) == (8, 28, "approximate")
    assert quality["low"]["median_x"] is quality["high"]["median_x"] is quality["error"] is None
