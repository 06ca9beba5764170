"""The approximate benchmark: its data have the stated shape, its errors are the true ones, and its verdicts are right.

No test here asserts how long anything takes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from muntin.bench import approximate as bench
from muntin.bench import approximate_records as records
from muntin.bench import data_sets
from muntin.bench.approximate_core import (
    MEAN,
    MEDIAN,
    accelerated,
    count_min_seconds,
    errors_of,
    rank_error,
    relative_error,
    replay_in_batches,
    scan_seconds,
    true_error,
    within,
)
from muntin.bench.approximate_plot import Budget, Pair, Picture, draw
from muntin.bench.core import ANSWER, Core, Ran, plan_of, replay, slides
from muntin.bench.data_sets import BEGIN, SECOND, TIME, DataSet
from muntin.bench.steady import EPOCH, FILES_PER_BATCH, write_tables
from muntin.windows import count

SIZE, SLIDE = 60 * SECOND, 20 * SECOND
Make = Callable[[], DataSet]
MADE: dict[str, tuple[Make, int, int]] = {
    "packets": (lambda: data_sets.packets("DEC", 100_000), 100_000, 0),
    "even packets": (lambda: data_sets.packets("even", 100_000), 100_000, 0),
    "tasks": (lambda: data_sets.tasks(50_000), 50_000, 4),
    "rides": (lambda: data_sets.rides("DEBS", 40_000), 40_000 // data_sets.WORKERS, 5_000 // data_sets.WORKERS),
    "flights": (lambda: data_sets.flights(100_000), 100_000, 3_399),
}
"""Each with about how many tuples and groups it has."""


@pytest.fixture
def nothing_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the files."""
    monkeypatch.setattr(data_sets, "FOLDER", tmp_path)


def small(keys: bool = True, rows: int = 3_000, seed: int = 5) -> DataSet:
    """A few minutes of tuples, in windows of one minute by a third of one."""
    rng = np.random.default_rng(seed)
    columns = {
        "time": pa.array(np.sort(rng.integers(BEGIN, BEGIN + 300 * SECOND, rows))).cast(TIME),
        "value": pa.array(rng.gamma(2.0, 10.0, rows)),
    }
    if keys:
        columns["key"] = pa.array(rng.integers(0, 5, rows))
    return DataSet("small", pa.table(columns), SIZE, SLIDE, made=True)


@pytest.mark.usefixtures("nothing_shared")
@pytest.mark.parametrize("name", MADE)
def test_made_data_are_the_same_every_time_and_have_the_shape(name: str) -> None:
    make, rows, groups = MADE[name]
    data = make()
    assert data.made
    assert data.tuples.equals(make().tuples)
    assert len(data.tuples) == pytest.approx(rows, rel=0.1)
    assert data.tuples["time"].type == TIME
    assert (np.diff(data.times) >= 0).all()
    assert BEGIN <= data.times[0] < BEGIN + data.lag
    assert data.size % data.slide == 0
    assert len(data.keys) == bool(groups)
    if groups:
        assert len(data.tuples["key"].unique()) == pytest.approx(groups, rel=0.15)


@pytest.mark.usefixtures("nothing_shared")
def test_even_packets_are_47000_to_a_window() -> None:
    data = data_sets.packets("even", 200_000)
    held = [len(data.within(end - data.size, end)) for end in data.ends.tolist()]
    assert held
    assert set(held) == {data_sets.PACKETS_IN_WINDOW}
    assert data.size == 3 * data.slide == 45 * SECOND


@pytest.mark.usefixtures("nothing_shared")
def test_made_data_sets_of_one_kind_differ() -> None:
    assert not data_sets.packets("DEC", 1_000).tuples.equals(data_sets.packets("Bellcore", 1_000).tuples)
    assert not data_sets.rides("DEBS", 1_000).tuples.equals(data_sets.rides("NYC", 1_000).tuples)


@pytest.mark.usefixtures("nothing_shared")
def test_windows_of_made_tasks_and_rides_hold_as_many_as_the_papers() -> None:
    tasks, rides = data_sets.tasks(1_000_000), data_sets.rides("NYC", 40_000)
    assert tasks.tuples_per_window == pytest.approx(data_sets.TASKS_IN_HOUR, rel=0.05)
    of_one_worker = data_sets.RIDES_IN_WINDOW / data_sets.WORKERS
    assert rides.tuples_per_window == pytest.approx(of_one_worker, rel=0.15)
    shares = np.bincount(tasks.tuples["key"].to_numpy()) / len(tasks.tuples)
    assert shares == pytest.approx(list(data_sets.CLASSES.values()), rel=0.2, abs=0.005)


@pytest.mark.skipif(not data_sets.FOLDER.exists(), reason="the data sets are not here")
def test_real_data_have_the_windows_of_the_paper() -> None:
    for name in ("DEC", "Bellcore"):
        data = data_sets.packets(name, 1_000_000)
        assert not data.made
        assert data.tuples_per_window == pytest.approx(data_sets.PACKETS_IN_WINDOW, rel=0.05)
        assert (data.tuples["value"].to_numpy().min(), data.tuples["value"].to_numpy().max()) == (64, 1518)
    tasks = data_sets.tasks(700_000)
    assert not tasks.made
    assert set(tasks.tuples["key"].unique().to_pylist()) == set(data_sets.CLASSES)
    for name in ("DEBS", "NYC"):
        rides = data_sets.rides(name, 60_000)
        assert not rides.made
        assert rides.tuples_per_window == pytest.approx(2_500, rel=0.3)


def test_the_same_tuples_in_other_windows() -> None:
    data = small().over(30 * SECOND, 10 * SECOND)
    assert data.ends.tolist() == list(range(BEGIN + 30 * SECOND, BEGIN + 300 * SECOND - SECOND, 10 * SECOND))
    assert data.apart == slice(None, None, 3)


def test_slides_deliver_every_tuple_once_and_windows_close_behind_it() -> None:
    data = small()
    delivered = list(slides(data))
    assert [end for end, _ in delivered][-len(data.ends) :] == data.ends.tolist()
    times = [np.asarray(tuples["time"].cast(pa.int64())) for _, tuples in delivered]
    together = np.concatenate(times)
    assert together.tolist() == data.times[: len(together)].tolist()
    # When a window closes, a little of the time behind it has come: so the watermark can have passed its end.
    assert all(end <= part.max() < end + data.lag for (end, _), part in zip(delivered, times, strict=True))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (30.0, 0.0),  # the median itself
        (20.0, 0.25),  # the exact quantile for 0.25
        (50.0, 0.5),
        (25.0, 0.125),  # halfway between those for 0.25 and 0.5
        (38.0, 0.2),
        (9.0, 0.5),  # beyond all values
        (51.0, 0.5),
    ],
)
def test_rank_error(answer: float, expected: float) -> None:
    assert rank_error(np.array([10.0, 20.0, 30.0, 40.0, 50.0]), answer, 0.5) == pytest.approx(expected)


def test_an_answer_that_occurs_often_has_all_its_ranks() -> None:
    ordered = np.array([1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 9])
    assert rank_error(ordered, 2, 0.5) == 0.0
    assert rank_error(ordered, 2, 0.05) == pytest.approx(0.05)  # its ranks are from 0.1 to 0.8
    assert rank_error(ordered, 2, 0.9) == pytest.approx(0.1)
    assert rank_error(ordered, 3, 0.5) == pytest.approx(0.4)


def test_a_single_value_is_every_quantile() -> None:
    assert rank_error(np.array([7.0]), 7.0, 0.5) == 0.0


def test_exact_quantiles_have_no_rank_error() -> None:
    rng = np.random.default_rng(3)
    for probability in (0.0, 0.1, 0.5, 0.77, 1.0):
        ordered = np.sort(rng.integers(0, 40, 101)).astype(float)
        off = rank_error(ordered, float(np.quantile(ordered, probability)), probability)
        assert off == pytest.approx(0.0, abs=1e-12)


def test_relative_error() -> None:
    assert relative_error(np.array([1.0, 3.0]), 2.0) == 0.0
    assert relative_error(np.array([1.0, 3.0]), 2.5) == pytest.approx(0.25)
    assert relative_error(np.array([-1.0, -3.0]), -1.0) == pytest.approx(0.5)
    assert relative_error(np.array([-1.0, 1.0]), 0.5) == np.inf


def test_the_error_of_a_window_is_the_mean_over_its_groups() -> None:
    end = BEGIN + SIZE
    rows = {"time": pa.array([BEGIN] * 4).cast(TIME), "value": [1.0, 3.0, 10.0, 30.0], "key": ["a", "a", "b", "b"]}
    data = DataSet("four", pa.table(rows), SIZE, SLIDE, made=True)
    result = pa.table({"key": ["b", "a"], ANSWER: [20.0, 3.0]})
    assert true_error(data, end, result, MEAN) == pytest.approx((0.0 + 0.5) / 2)
    assert true_error(data, end, result, MEDIAN) == pytest.approx((0.0 + 0.5) / 2)


@pytest.mark.parametrize("keys", [True, False])
def test_exact_answers_are_the_naive_ones(keys: bool) -> None:
    data = small(keys)
    ran = replay(data, plan_of(data, MEDIAN))
    assert list(ran.results) == data.ends.tolist()
    assert len(ran.windows) == len(data.ends)
    assert 0 < sum(ran.windows) < ran.closing
    for end, result in ran.results.items():
        frame = data.within(end - data.size, end).to_pandas()
        told = result.to_pandas()
        if keys:
            expected = frame.groupby("key")["value"].median()
            assert told.set_index("key")[ANSWER].sort_index().to_dict() == pytest.approx(expected.to_dict())
        else:
            assert told[ANSWER].tolist() == pytest.approx([frame["value"].median()])
        assert true_error(data, end, result, MEDIAN) == pytest.approx(0.0, abs=1e-9)


def test_a_budget_for_all_tuples_accelerates_every_window_without_error() -> None:
    data = small(keys=False)
    ran = replay(data, plan_of(data, MEDIAN, within(10_000)))
    errors, which = errors_of(data, ran, MEDIAN, 10_000)
    assert which.all()
    assert errors == pytest.approx(np.zeros(len(data.ends)), abs=1e-9)


def test_samples_answer_windows_and_are_smaller_than_the_tuples() -> None:
    data = small(keys=False, rows=60_000)
    exact, approximate = (replay(data, plan_of(data, MEDIAN, allowed)) for allowed in (None, within(150)))
    errors, which = errors_of(data, approximate, MEDIAN, 150)
    assert which.all()
    assert 0 < errors.max() < 0.2
    assert 0 < approximate.sample_bytes < exact.memory
    assert exact.sample_bytes == 0


def test_a_sample_that_is_no_good_leaves_windows_exact() -> None:
    data = small(keys=False)
    ran = replay(data, plan_of(data, MEDIAN, within(20, 0.01)))
    errors, which = errors_of(data, ran, MEDIAN, 20)
    assert not which.any()
    assert errors == pytest.approx(np.zeros(len(data.ends)), abs=1e-9)


def test_accelerated_is_approximate_or_a_sample_of_all() -> None:
    def result(modes: list[str], sizes: list[int]) -> pa.Table:
        return pa.table({"quality": pa.array([{"mode": m, "size": s} for m, s in zip(modes, sizes, strict=True)])})

    assert accelerated(result(["exact", "approximate"], [1, 900]), 100)
    assert accelerated(result(["exact", "exact"], [60, 40]), 100)
    assert not accelerated(result(["exact", "exact"], [60, 41]), 100)


def test_count_windows_run_to_their_end() -> None:
    data = small(keys=False)
    for allowed in (None, within(50)):
        assert replay_in_batches(data, plan_of(data, MEDIAN, allowed, count(400)), rows=700) > 0


def test_a_scan_finds_the_means_of_every_window() -> None:
    data = small()
    assert len(scan_seconds(data)) == len(data.ends)
    core, end = Core(plan_of(data, MEDIAN)), int(data.ends[0])
    for slide, tuples in slides(data):
        core.arrive(tuples)
        if slide == end:
            break
        core.close(slide)
    found = dict(zip(*(column.to_pylist() for column in core.scan(end - data.size, end).columns), strict=True))
    exact = data.within(end - data.size, end).to_pandas().groupby("key")["value"].mean().to_dict()
    core.forget()
    assert found == pytest.approx(exact)


def test_count_min_has_a_time_for_every_window() -> None:
    pytest.importorskip("datasketches")
    assert len(count_min_seconds(small(), windows=2)) == 2


def ran(*windows: float, arrival: float = 0.0, memory: int = 1, sample_bytes: int = 1, read: float = 1.0) -> Ran:
    return Ran((arrival,), windows, windows, memory, sample_bytes, read, {})


def test_a_case_meets_its_targets_or_misses_them() -> None:
    case = records.Case(small(), budget=150, faster=10.0, smaller=100.0)
    right = np.ones(len(case.data.ends), dtype=bool)
    errors = np.where(right, 0.05, 0.0)
    fast = records.Compared(case, ran(0.2, read=10_000), ran(0.02, read=100), errors, right)
    slow = records.Compared(case, ran(0.2, read=9_999), ran(0.021, read=100), errors, right)
    assert [record.meets for record in fast.records()] == [True, True, None, True]
    assert [record.meets for record in slow.records()] == [False, False, None, True]
    assert all(record.name.startswith("small (made), 1 minute: grouped median") for record in fast.records())


def test_a_few_windows_may_be_over_the_error() -> None:
    errors = np.full(200, 0.01)
    errors[:20] = 0.2  # twice as many as there should be: that may be chance
    assert records.over_error("x", errors).meets is True
    errors[:40] = 0.2
    assert records.over_error("x", errors).meets is False
    assert records.over_error("x", np.zeros(0)).meets is None


def budget(tuples: int, accelerated: int, over: int) -> Budget:
    """A hundred windows."""
    errors = np.where(np.arange(100) < over, 0.2, 0.01)
    return Budget(tuples, errors, np.arange(100) < accelerated, 0.001)


def test_a_larger_budget_is_to_accelerate_more_and_to_err_less() -> None:
    good = records.of_budgets([budget(250, 40, 1), budget(500, 90, 5), budget(1_000, 100, 0)])
    assert [record.meets for record in good] == [True] * 5
    *_, accelerating, erring = records.of_budgets([budget(250, 90, 1), budget(500, 80, 5), budget(1_000, 100, 0)])
    assert (accelerating.ratio, accelerating.meets) == (1.0, False)
    assert (erring.ratio, erring.meets) == (1.0, False)


def test_panes_beside_something_else() -> None:
    record = records.beside(small(), ran(0.001), "a scan", [0.008, 0.006], 7.0)
    assert record.ratio == pytest.approx(7.0)
    assert record.meets
    skipped = records.beside(small(), ran(0.001), "CountMin", None, 9.0)
    assert skipped.meets is None
    assert "pip install datasketches" in skipped.note


def test_of_several_runs_the_fastest_slides_and_windows_count() -> None:
    found = Ran.fastest([ran(1.0, 4.0, arrival=3.0), ran(2.0, 3.0, arrival=1.0)])
    assert found.windows == (1.0, 3.0)
    assert (found.arrival, found.closing, found.total) == (1.0, 4.0, 5.0)


def test_fallback_compares_all_that_is_done() -> None:
    record = records.of_fallback("budget 1", 1_000, ran(1.0, arrival=1.0), ran(1.0, arrival=1.1), 3, 1.05)
    assert record.ratio == pytest.approx(1.05)
    assert record.baseline == pytest.approx(500)
    assert record.meets


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    pair = Pair("a, 1 minute", (0.02, 0.03), (0.002, 0.003), 10_000, 100, np.array([0.01, 0.2]))
    empty = Pair("b, 1 minute", (0.02, 0.03), (0.002, 0.003), 10_000, 100, np.zeros(0))
    picture = Picture(0.1, [pair, empty], [budget(250, 40, 1)], {2_500: (1.0, 0.5), 47_000: (1.0, 0.1)}, {900: pair})
    draw(picture, tmp_path / "deep" / "picture.png")
    assert (tmp_path / "deep" / "picture.png").stat().st_size > 10_000


def test_slides_for_spark_come_one_to_a_batch(tmp_path: Path) -> None:
    write_tables(tmp_path / "in", bench._slides(rows=100, batches=3))
    files = sorted((tmp_path / "in").iterdir(), key=lambda path: (path.stat().st_mtime, path.name))
    assert len(files) == FILES_PER_BATCH * (3 + bench.SPARK_WARM_UP)
    begin = EPOCH
    for batch in range(len(files) // FILES_PER_BATCH):
        parts = [pq.read_table(path) for path in files[batch * FILES_PER_BATCH : (batch + 1) * FILES_PER_BATCH]]
        times = np.asarray(pa.concat_tables(parts)["ts"].cast(pa.int64()))
        seconds = bench.SPARK_PANES if batch == 0 else 1
        assert len(times) == 100 * seconds
        assert begin <= times.min() <= times.max() < begin + seconds * SECOND
        begin += seconds * SECOND


@pytest.mark.spark
def test_the_approximate_median_has_the_windows_of_the_exact_one(spark: SparkSession, tmp_path: Path) -> None:
    write_tables(tmp_path / "in", bench._slides(rows=2_000, batches=1))
    table = spark.read.parquet(str(tmp_path / "in"))
    exact, approximate = (
        {row.window_id: row for row in bench._sliding_median(table, approximate=which).to_df().collect()}
        for which in (False, True)
    )
    assert exact.keys() == approximate.keys()
    assert {row.quality.mode for row in approximate.values()} == {"approximate"}
    off = [abs(exact[window].middle - row.middle) for window, row in approximate.items()]
    assert 0 < max(off) < 0.2  # of values that are uniform between 0 and 1
