"""The parallel benchmark: its fit and its quotes are what they should be, and its verdicts are right.

No test here asserts how long anything takes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.progress import Progress

from muntin import aggregates as A
from muntin import windows as W
from muntin.bench import parallel_data as data
from muntin.bench import parallel_records as records
from muntin.bench.core import plan_of, replay
from muntin.bench.data_sets import BEGIN, SECOND, TIME, DataSet
from muntin.bench.parallel_alone import calls_per_second
from muntin.bench.parallel_chunks import static_plan
from muntin.bench.parallel_fit import Fit, last
from muntin.bench.parallel_plot import Picture, draw
from muntin.bench.parallel_runs import Batch, Run, Setting, batches_of, measure
from muntin.bench.running import Running
from muntin.bench.steady import EPOCH, FILES_PER_BATCH, write_tables
from muntin.engine.metrics import names
from muntin.features.workers.policy import Model
from muntin.spark.metrics import all_metrics


def window(times: list[int], values: list[float]) -> pa.Table:
    return pa.table({"ts": pa.array(times).cast(TIME), "value": values})


def test_a_fit_finds_the_polynomial() -> None:
    place = np.linspace(-1, 0, 500)
    assert Fit((2,)).fitted(place, 3 + 2 * place - place**2) == pytest.approx([3, 2, -1], abs=1e-6)
    assert Fit((3,)).fitted(place, 3 + 2 * place - place**2) == pytest.approx([3, 2, -1, 0], abs=1e-6)


def test_of_several_degrees_the_best_is_taken() -> None:
    place = np.linspace(-1, 0, 500)
    noise = np.random.default_rng(0).normal(0, 0.01, 500)
    assert Fit((1, 2, 5)).fitted(place, 3 + 2 * place - place**2 + noise) == pytest.approx([3, 2, -1], abs=0.02)


def test_a_fit_tells_the_price_the_trend_and_its_time() -> None:
    times = [EPOCH + at * 1000 for at in range(11)]
    (told,) = Fit((1,))(window(times, [100 + at / 10 for at in range(11)])).to_pylist()
    assert (told["price"], told["trend"]) == (pytest.approx(101), pytest.approx(1))
    assert told["tuples"] == 11
    assert told["nanoseconds"] > 0
    (one,) = Fit()(window([EPOCH], [5.0])).to_pylist()
    assert (one["price"], one["trend"]) == (5.0, 0.0)
    assert last(window([EPOCH, EPOCH + 1], [5.0, 6.0])).to_pylist() == [{"price": 6.0}]


def test_the_function_runs_in_processes_of_its_own() -> None:
    assert calls_per_second(Fit(), tuples=100, calls=3, processes=2) > 0


def test_quotes_come_evenly() -> None:
    first, second = data.even(1_000, [1, 0.5])
    times = np.asarray(pa.concat_tables([first, second])["ts"].cast(pa.int64()))
    assert (len(first), len(second)) == (1_000, 500)
    assert times.tolist() == (EPOCH + np.arange(1_500) * 1_000).tolist()


def test_windows_have_the_sizes_that_are_asked_for() -> None:
    tables = data.bursts([[5, 1], [0, 3]], SECOND)
    starts = [((np.asarray(table["ts"].cast(pa.int64())) - EPOCH) // SECOND).tolist() for table in tables]
    assert starts == [[0, 0, 0, 0, 0, 1], [3, 3, 3]]
    assert data.periodic(4, 1_000, 2, 3).tolist() == [1_500, 500, 1_500, 500]
    sizes = data.heavy_tailed(1_000, 5_000, 1.5, seed=0)
    assert sizes.mean() == pytest.approx(5_000, rel=0.01)
    assert sizes.max() > 10 * np.median(sizes)


def test_one_key_is_hot() -> None:
    (table,) = data.hot_key(10_000, [1], keys=8, share=0.8)
    keys = np.asarray(table["key"])
    assert np.mean(keys == 0) == pytest.approx(0.8, abs=0.02)
    assert set(keys.tolist()) == set(range(8))


def test_files_are_in_the_order_of_batches(tmp_path: Path) -> None:
    folder = write_tables(tmp_path / "quotes", data.even(100, [1, 1]))
    files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    assert len(files) == 2 * FILES_PER_BATCH
    read = [pq.read_table(path) for path in sorted(files)]
    assert pa.concat_tables(read).equals(pa.concat_tables(list(data.even(100, [1, 1]))))
    assert [path.name[:4] for path in files] == ["0000"] * FILES_PER_BATCH + ["0001"] * FILES_PER_BATCH


def report(arrived: int, **metrics: int) -> dict[str, object]:
    calls = {"count": 4, "sum": 2_000_000_000, "max": 900_000_000}
    return {
        "batchId": 0,
        "numInputRows": arrived,
        "durationMs": {"triggerExecution": 1500},
        "observedMetrics": {"muntin": {**dict.fromkeys(names(all_metrics()), 0), **metrics}, "calls": calls},
    }


class Report(dict[str, object]):
    @property
    def numInputRows(self) -> object:  # noqa: N802
        return self["numInputRows"]


def test_reports_of_spark() -> None:
    reports = [Report(report(rows)) for rows in (5, 0, 6)]
    reports.append(
        Report(report(7, rows=7, results=4, answer_nanoseconds=10**8, arrived_bytes=50, jobs=2, job_bytes=30))
    )
    (batch,) = batches_of(reports, warm_up=2)
    assert batch == Batch(1.5, 7, 4, 2.0, 0.9, 0.1, 50, 2, 30)
    run = Run((batch, replace(batch, seconds=0.5)))
    assert run.fastest == 8
    assert run.overall == 4
    assert run.latency == 0.5
    assert run.emitter == 0.025
    assert run.bytes_per_window == 20


def made(rate: float, latency: float = 0.1, sent: int = 1_000) -> Run:
    return Run((Batch(100 / rate, 1_000, 100, 100 * latency, latency, 0.1, 100 * sent, 0, 0),))


def of_two(active: tuple[float, float], agnostic: tuple[float, float]) -> dict[tuple[Model, int], Run]:
    return {
        ("active", 1): made(active[0]),
        ("agnostic", 1): made(agnostic[0]),
        ("active", 2): made(active[1]),
        ("agnostic", 2): made(agnostic[1]),
    }


def test_verdicts_on_models() -> None:
    good = records.of_models("w", of_two((10, 18.5), (9.9, 18)), 100, aimed=True)
    assert [each.meets for each in good if each.target] == [True, True, True]
    bad = records.of_models("w", of_two((10, 17), (9, 16)), 100, aimed=True)
    assert [each.meets for each in bad if each.target] == [False, False, False]
    assert not any(each.target for each in records.of_models("w", of_two((10, 17), (9, 16)), 100, aimed=False))


def test_verdicts_on_skew() -> None:
    sizes = [[900, 100], [300, 700]]
    runs: dict[Model, Run] = {"active": made(10), "agnostic": made(12.5)}
    skew = records.of_skew("w", runs, sizes, aimed=True)
    assert skew.ratio == pytest.approx(1.25)
    assert skew.meets
    assert "has 80%" in skew.note
    assert records.of_skew("w", {**runs, "agnostic": made(11)}, sizes, aimed=True).meets is False
    assert records.of_skew("w", {**runs, "agnostic": made(11)}, sizes, aimed=False).meets is None


def test_what_is_shown_without_a_target() -> None:
    (chunks,) = records.of_chunks("w", {records.AUTOMATIC: made(10), 500: made(9)}, 2_000)
    assert chunks.ratio == pytest.approx(0.9)
    (rate,) = records.of_rates("w", {200_000: made(10)}, 40)
    assert rate.ratio == pytest.approx(0.25)
    assert "4 workers" in rate.note
    (by_tuple,) = records.of_tuples({(1, 4_000): made(10)}, 200_000)
    assert by_tuple.ratio == pytest.approx(0.2)
    sent = records.of_bytes("w", {"one": made(10, sent=400), "ten": made(10, sent=100)})
    assert [each.ratio for each in sent] == [0.25]
    assert records.of_hot_key("w", made(10), made(15)).ratio == pytest.approx(1.5)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    runs = of_two((10, 18), (10, 18))
    skewed: dict[Model, Run] = {"active": made(10), "agnostic": made(12)}
    picture = Picture(
        {"w": runs},
        {records.AUTOMATIC: made(10), 500: made(9)},
        {200_000: made(10)},
        {(1, 4_000): made(10)},
        {"skew": skewed},
        {"whole windows": {"active": made(10), "agnostic": made(10)}},
        {"keyed": made(8), "agnostic": made(10)},
    )
    draw(picture, tmp_path / "deep" / "picture.png")
    assert (tmp_path / "deep" / "picture.png").stat().st_size > 10_000


@pytest.mark.parametrize("length", [7_000, 40_000])
def test_static_chunks_change_no_result(length: int) -> None:
    quotes = data.quotes(BEGIN + np.arange(1_000) * 500, seed=0)
    tuples = quotes.rename_columns(["time", "key", "value"]).select(["time", "value"])
    stream = DataSet("quotes", tuples, SECOND // 5, SECOND // 50, made=True)
    plan = plan_of(stream, A.median("value"))
    own, static = replay(stream, plan), replay(stream, static_plan(plan, length))
    assert static_plan(plan, length).chunk_length == length != plan.chunk_length
    assert len(own.results) > 5
    assert own.results == static.results


@pytest.mark.spark
def test_a_run_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    setting = Setting(W.sliding("1 second", "100 milliseconds"), "agnostic", chunk=30_000)
    folder = write_tables(tmp_path / "quotes", data.even(2_000, [1, 1, 1]))
    run = measure(Running(spark, tmp_path, Progress(disable=True)), folder, setting, warm_up=2)
    (batch,) = run.batches
    assert (batch.rows, batch.results) == (2_000, 10)
    assert 0 < batch.longest <= batch.calls
    assert batch.arrived_bytes > 0
    assert batch.jobs > 0
    assert batch.job_bytes > 0
