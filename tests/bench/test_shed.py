"""The shed benchmark: its errors and drifts are the true ones, and its verdicts are right.

No test here asserts how long anything takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from muntin.bench import data_sets, shed_overload
from muntin.bench import shed_records as records
from muntin.bench.core import Ran
from muntin.bench.data_sets import BEGIN, SECOND, TIME, DataSet
from muntin.bench.shed import FIT
from muntin.bench.shed_core import (
    AT,
    MEAN,
    Compared,
    Drift,
    Shed,
    concept,
    drift,
    drift_of,
    errors_of,
    pane_stage_seconds,
    run_of,
    shedding,
    truth_of,
    window_error,
)
from muntin.bench.shed_fit import Fit
from muntin.bench.shed_on_spark import (
    CLOSING_BATCHES,
    CLOSING_WARM_UP,
    CONCEPT,
    SLIDE,
    SPARK_BATCHES,
    UNIFORM,
    fares_on_spark,
    means_on_spark,
    rides_on_spark,
    slides_on_spark,
)
from muntin.bench.shed_overload import Driven, Seen
from muntin.bench.shed_plot import Picture, draw
from muntin.bench.steady import EPOCH, Measured, measure, write_tables


def small(keys: bool = True, rows: int = 20_000) -> DataSet:
    """Five minutes of tuples, in windows of one minute by a third of one; a few groups are large and most are rare."""
    rng = np.random.default_rng(5)
    groups = np.floor(1_500 ** rng.random(rows)).astype(np.int64)
    columns = {
        "time": pa.array(np.sort(rng.integers(BEGIN, BEGIN + 300 * SECOND, rows))).cast(TIME),
        "value": pa.array((10 + groups % 7) * rng.lognormal(0, 0.2, rows)),
    }
    if keys:
        columns["key"] = pa.array(groups)
    return DataSet("small", pa.table(columns), 60 * SECOND, 20 * SECOND, made=True)


def test_the_error_is_the_mean_over_all_groups_and_a_missing_one_counts_as_1() -> None:
    truth = pd.Series([10.0, 20.0, -4.0, 0.0, 5.0], index=["a", "b", "c", "d", "e"])
    told = pd.Series([11.0, -5.0, 0.0], index=["a", "c", "d"])
    assert window_error(truth, told) == pytest.approx((0.1 + 1 + 0.25 + 0 + 1) / 5)


def test_no_group_counts_for_more_than_a_missing_one() -> None:
    truth = pd.Series([0.01, 0.0, 8.0], index=[1, 2, 3])
    told = pd.Series([30.0, 3.0, 8.0, 99.0], index=[1, 2, 3, 4])
    assert window_error(truth, told) == pytest.approx(2 / 3)


def test_a_window_that_says_nothing_is_all_wrong() -> None:
    assert window_error(pd.Series([1.0, 2.0]), pd.Series([np.nan], index=[0])) == 1.0


@pytest.mark.parametrize("keys", [True, False])
def test_without_shedding_there_is_no_error_and_with_it_a_little(keys: bool) -> None:
    data = small(keys)
    truth = truth_of(data)
    exact, shed = run_of(data, MEAN), run_of(data, MEAN, shedding(0.9, "concept"))
    assert errors_of(truth, exact) == pytest.approx(np.zeros(len(data.ends)), abs=1e-9)
    assert exact.kept == 1
    assert 0 < errors_of(truth, shed).mean() < 0.1
    assert 0.09 < shed.kept < (0.7 if keys else 0.11)


def test_uniform_shedding_loses_rare_groups() -> None:
    data = small()
    truth = truth_of(data)
    uniform, by_concept = (errors_of(truth, run_of(data, MEAN, shedding(AT, m))) for m in ("uniform", "concept"))
    assert uniform.mean() > 0.6
    assert by_concept.mean() < uniform.mean() / 10


def test_drift_of_concepts() -> None:
    first, second = (concept(pa.table({"key": list(keys)})) for keys in ("aabb", "abcc"))
    assert drift(first, first) == (1.0, 0.0)
    overlap, distance = drift(first, second)
    assert overlap == pytest.approx(2 / 3)
    assert distance == pytest.approx(0.5)
    assert drift(first, concept(pa.table({"key": ["x", "y"]}))) == (0.0, 1.0)
    found = drift_of(small())
    assert len(found.overlap) == len(found.distance) == len(small().ends) - 1


def test_zipf_rides_have_the_stated_shape() -> None:
    data = data_sets.zipf(250_000)
    assert data.tuples_per_window == pytest.approx(data_sets.ZIPF_IN_WINDOW, rel=0.01)
    end = int(data.ends[0])
    window = data.within(end - data.size, end).to_pandas()
    sizes = window.groupby("key").size()
    assert len(sizes) > 5_000
    assert (sizes <= 5).mean() > 0.5
    of_largest = window[window["key"] == sizes.idxmax()]["value"]
    assert of_largest.std() / of_largest.mean() == pytest.approx(data_sets.ZIPF_VARIATION, rel=0.05)


def test_a_fit_finds_the_polynomial_in_spite_of_outliers() -> None:
    place = np.linspace(-1, 0, 500)
    values = 3 + 2 * place - place**2
    values[::10] += 40
    assert Fit(degree=2, rounds=30).fitted(place, values) == pytest.approx([3, 2, -1], abs=0.01)
    one = pa.table({"time": pa.array([BEGIN]).cast(TIME), "value": [5]})
    assert Fit(degree=2, rounds=3)(one).to_pylist() == [{"level": 5.0, "slope": 0.0}]


def test_all_systems_are_run_in_turn() -> None:
    data = small(rows=3_000)
    compared = Compared(data, MEAN, (0.5, AT))
    compared.run(rounds=2)
    for shed in (compared.normal, *compared.uniform.values(), *compared.concept.values()):
        assert len(shed.runs) == 2
        assert len(shed.windows) == len(data.ends)
    assert compared.as_many is not None
    assert compared.as_many.kept == pytest.approx(compared.concept[AT].kept, rel=0.1)
    fits = Compared(data, FIT, (AT,))
    fits.run(rounds=1)
    assert [record.target for record in records.of_fits(fits)] == [records.FASTER, records.AS_FAST]


def test_the_pane_stage_is_timed_for_every_method() -> None:
    seconds = pane_stage_seconds(small(), rounds=1)
    assert list(seconds) == ["normal", "uniform", "concept"]
    assert [record.name.rpartition(", ")[2] for record in records.of_pane_stage(small(), seconds)] == [
        "uniform by normal",
        "concept by normal",
    ]


def shed(seconds: float, error: float, kept: float = 0.02, rate: float = AT) -> Shed:
    ran = Ran((0.0,), (seconds, seconds), (seconds, seconds), 0, 0, 0.0, {}, kept)
    return Shed(rate, [ran], [np.array([error, error])])


def found(data: DataSet, uniform: Shed, by_concept: Shed, normal: float = 1.0) -> Compared:
    return Compared(data, MEAN, (AT,), shed(normal, 0.0, 1.0, 0.0), {AT: uniform}, {AT: by_concept})


def test_verdicts_on_many_rare_groups() -> None:
    goals = records.Goals(rare_groups=True)
    good = records.of_means(found(small(), shed(1.0, 0.9), shed(1.1, 0.09)), goals)
    assert [record.meets for record in good] == [True, None, True, True]
    bad = records.of_means(found(small(), shed(1.0, 0.9), shed(1.2, 0.11)), goals)
    assert [record.meets for record in bad] == [False, None, False, False]


def test_verdicts_on_scalars() -> None:
    goals = records.Goals(alike=True)
    good = records.of_means(found(small(keys=False), shed(1.0, 0.02), shed(1.1, 0.025)), goals)
    assert [record.meets for record in good] == [None, None, True, True]
    bad = records.of_means(found(small(keys=False), shed(1.0, 0.02), shed(1.2, 0.026)), goals)
    assert [record.meets for record in bad] == [None, None, False, False]


def test_time_over_all_data_sets_is_told_without_a_verdict() -> None:
    scalar = found(small(keys=False), shed(1.0, 0.1), shed(0.9, 0.1))
    record = records.of_all_means([found(small(), shed(1.0, 0.9), shed(1.4, 0.09)), scalar])
    assert record.ratio == pytest.approx(np.sqrt(1.4 * 0.9))
    assert record.meets is None  # scalar windows would make up for those with rare groups


def test_what_keeps_more_is_compared_with_uniform_that_keeps_as_much() -> None:
    compared = found(small(), shed(1.0, 0.9), shed(1.5, 0.01, kept=0.3))
    compared.as_many = shed(1.2, 0.5, kept=0.3, rate=0.7)
    *_, error, latency = records.of_means(compared, records.Goals())
    assert error.ratio == pytest.approx(0.02)
    assert latency.ratio == pytest.approx(1.25)
    assert error.target is None
    assert latency.meets is False  # as many tuples should take no longer


def driven(seconds: list[float], backlog: float) -> Driven:
    return Driven(
        3_000, 120.0, tuple(Seen(i, 2.0 * i, each, 6_000, 0.6, each) for i, each in enumerate(seconds)), backlog
    )


def test_the_first_batches_under_overload_do_not_count() -> None:
    plain = driven([2.0, 6.0, 18.0], 90.0)
    p95, longest, backlog = records.of_overload(1_000, 2.0, driven([9.0] * 10 + [2.0] * 99 + [4.0], 2.0), plain)
    assert p95.ratio == pytest.approx(1.0)
    assert (p95.meets, longest.ratio, longest.meets) == (True, 2.0, False)
    assert backlog.ratio == pytest.approx(45)
    (unknown,) = records.of_overload(1_000, 2.0, driven([9.0] * 10, 2.0), plain)
    assert unknown.meets is None


def test_reports_of_spark() -> None:
    report = {
        "batchId": 3,
        "timestamp": "2026-01-01T00:00:10.000Z",
        "durationMs": {"triggerExecution": 1500},
        "numInputRows": 700,
        "observedMetrics": {"muntin": {"shed_rate": 250_000}},
        "eventTime": {"max": "2026-01-01T00:00:09.500Z"},
    }
    since = shed_overload._seconds("2026-01-01T00:00:00.000Z")
    assert shed_overload._seen(report, since) == Seen(3, 10.0, 1.5, 700, 0.25, 2.0)


@pytest.mark.extended
@pytest.mark.spark
def test_rides_on_spark_keep_every_route_where_shedding_goes_by_concept(spark: SparkSession, tmp_path: Path) -> None:
    batches = list(rides_on_spark(20_000))
    assert [len(batch) for batch in batches] == [20_000] * SPARK_BATCHES
    first = np.asarray(batches[1]["ts"].cast(pa.int64()))
    assert first.min() == EPOCH + SLIDE
    assert first.max() < EPOCH + 2 * SLIDE
    folder = write_tables(tmp_path / "rides", batches[:1])
    routes, answered = {}, {}
    for name, method in (("normal", None), ("uniform", UNIFORM), ("concept", CONCEPT)):
        query = fares_on_spark(spark, folder, method).writeStream.format("memory").queryName(f"rides_{name}")
        query.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start().awaitTermination()
        rows = spark.table(f"rides_{name}").collect()
        routes[name] = {(row.window_id, row.key) for row in rows}
        answered[name] = sum(row.fare is not None for row in rows)
    assert routes["concept"] == routes["uniform"] == routes["normal"]
    assert answered["concept"] == answered["normal"] == len(routes["normal"])
    assert answered["uniform"] < len(routes["normal"]) / 2  # of the others nothing was kept


@pytest.mark.extended
@pytest.mark.spark
def test_windows_that_close_on_spark_have_every_group(spark: SparkSession, tmp_path: Path) -> None:
    data = small()
    folder = write_tables(tmp_path / "small", slides_on_spark(data))
    frame = means_on_spark(spark, folder, data, CONCEPT, AT)
    query = frame.writeStream.format("memory").queryName("closing")
    query.option("checkpointLocation", str(tmp_path / "memory")).trigger(availableNow=True).start().awaitTermination()
    told = spark.table("closing").selectExpr("unix_micros(window.end) as end", "key", "answer").toPandas()
    answers = {end: pd.Series(of["answer"].to_numpy(), index=of["key"]) for end, of in told.groupby("end")}
    truth = {end: of for end, of in truth_of(data).items() if end < BEGIN + CLOSING_BATCHES * data.slide}
    assert len(truth) > CLOSING_BATCHES // 2
    for end, of_window in truth.items():
        assert set(answers[end].index) == set(of_window.index)
        assert window_error(of_window, answers[end]) < 0.1
    found = measure(frame, tmp_path / "scratch", CLOSING_WARM_UP, lambda _: None)
    assert len(found.latencies) == CLOSING_BATCHES - CLOSING_WARM_UP
    assert all(0 < latency <= seconds for latency, seconds in zip(found.latencies, found.seconds, strict=True))


def test_window_latency_on_spark_is_of_the_faster_half_of_the_batches() -> None:
    found = records.Closing(small(), AT)
    for uniform, by_concept in (((0.4, 0.6, 9.0), (0.3, 0.56, 1.0)), ((0.7,), (0.79, 0.9))):
        found.add(UNIFORM, measured(*uniform))
        found.add(CONCEPT, measured(*by_concept))
    told = records.of_closing(found)
    assert told.ratio == pytest.approx(((0.3 + 0.56 + 0.79) / 3) / 0.5)
    assert told.meets is True
    assert "4 batches" in told.note
    assert "5 batches" in told.note
    found.shed[UNIFORM] = measured(0.4, 0.45, 9.0)
    assert records.of_closing(found).meets is False


def measured(*seconds: float) -> Measured:
    return Measured((100,) * len(seconds), seconds, cast("StreamingQuery", None), latencies=seconds)


def test_the_fastest_batches_on_spark_are_compared() -> None:
    found = records.OnSpark()
    found.add_normal(measured(1.0, 1.5))
    for rate, uniform, by_concept in ((0.5, 1.0, 1.21), (AT, 2.0, 0.54), (AT, 0.5, 3.0)):
        found.add(UNIFORM, rate, measured(uniform))
        found.add(CONCEPT, rate, measured(by_concept))
    at_half, at, over_all, by_normal = told = records.on_spark(100, found)
    assert [record.meets for record in told] == [None, True, False, None]
    assert at_half.ratio == pytest.approx(1.21)
    assert at.ratio == pytest.approx(1.08)
    assert over_all.ratio == pytest.approx((1.21 * 1.08) ** 0.5)
    assert by_normal.ratio == pytest.approx(0.54)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    compared = found(small(), shed(0.01, 0.9), shed(0.015, 0.01, kept=0.3))
    drifts = {"small": Drift(np.array([0.5, 0.6]), np.array([0.2, 0.3]))}
    picture = Picture([compared], [compared], drifts, 2.0, driven([1.0, 2.0], 2.0), driven([2.0, 6.0], 60.0))
    draw(picture, tmp_path / "deep" / "picture.png")
    assert (tmp_path / "deep" / "picture.png").stat().st_size > 10_000
