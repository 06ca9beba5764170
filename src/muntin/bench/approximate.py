"""Answers from samples against exact ones: window time, memory and error by budget (SPEAr, figures 8–12, table 2).

The time of a window is from its close to its answer, measured without an engine. In addition, an exact and an
approximate sliding median run as streams on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench import approximate_records as records_of
from muntin.bench import data_sets
from muntin.bench.approximate_core import (
    MEAN,
    MEDIAN,
    count_min_seconds,
    errors_of,
    has_count_min,
    raw_scan_seconds,
    replay_in_batches,
    scan_seconds,
    within,
)
from muntin.bench.approximate_plot import Budget, Picture, draw
from muntin.bench.approximate_records import ERROR, Case, Compared
from muntin.bench.core import fastest_in_step, fastest_in_turn, plan_of, replay
from muntin.bench.data_sets import PACKETS_IN_WINDOW, SECOND, DataSet
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import EPOCH, stream, write_tables

PACKET_BUDGET, TASK_BUDGET, RIDE_BUDGET, FLIGHT_BUDGET = 150, 4_000, 2_000, 20_000
"""Budgets of medians: those of Katsipoulakis et al. (2020), *SPEAr*, which has no flights."""
MEAN_BUDGETS = (250, 500, 1_000)
COUNTS = (2_500, 5_000, 10_000, 20_000, PACKETS_IN_WINDOW)
TASK_SIZES = (900, 1_800, 3_600)
"""Seconds of a window; the slide is half of it."""
FASTER_MEDIAN, SMALLER_MEDIAN, FASTER_GROUPS = 10.0, 100.0, 7.0
BESIDE_SCAN, BESIDE_COUNT_MIN = 7.0, 9.0
FALLBACK_BUDGET, FALLBACK_ERROR, FALLBACK_TARGET = 20, 0.01, 1.05
NEARLY_BUDGET = 90
"""A little too small: 103 tuples would be enough."""
SPARK_PANES = 60
SPARK_WARM_UP = 2
"""Batches: one that fills the windows, and one in which these close."""
SPARK_BUDGET, SPARK_ERROR, SPARK_TARGET = 1_000, 0.05, 3.0


@dataclass(frozen=True)
class Scale:
    """The size of the run."""

    packets: int
    """Tuples of each data set."""
    tasks: int
    rides: int
    flights: int
    seeds: int
    """Seeds of the samples of figure 11. Another seed is as good as other data."""
    turns: int
    """How often exact and approximate medians run in turn."""
    rounds: int
    """How often queries that differ by little run in step."""
    sketched: int
    """Windows that the CountMin sketch answers."""
    counts: tuple[int, ...]
    spark_rows: int
    """Rows of a slide, which is a batch."""
    spark_batches: int


FULL = Scale(
    packets=1_000_000,
    tasks=2_000_000,
    rides=100_000,
    flights=3_000_000,
    seeds=8,
    turns=3,
    rounds=7,
    sketched=5,
    counts=COUNTS,
    spark_rows=150_000,
    spark_batches=5,
)
QUICK = Scale(
    packets=400_000,
    tasks=800_000,
    rides=30_000,
    flights=1_000_000,
    seeds=3,
    turns=1,
    rounds=3,
    sketched=1,
    counts=(COUNTS[0], COUNTS[-1]),
    spark_rows=50_000,
    spark_batches=3,
)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every target is met."""
    scale = QUICK if quick else FULL
    return run_benchmark("approximate", "Answers from samples", out, lambda running: _Bench(running, scale).run())


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._scale = scale
        self._picture = Picture(ERROR)

    def run(self) -> tuple[list[Record], Draw]:
        of_medians, of_means, of_spark = 6 + len(TASK_SIZES), 4 + len(MEAN_BUDGETS), 1 + 4
        self._running.steps(of_medians + of_means + len(self._scale.counts) + 4 + of_spark)
        records: list[Record] = []
        for part in (self._medians, self._window_sizes, self._budgets, self._count_windows, self._incremental):
            records += part()
        records += [*self._fallback(), self._on_spark()]
        return records, partial(draw, self._picture)

    def _packets(self) -> Iterator[DataSet]:
        for name in ("DEC", "Bellcore", "even"):
            yield data_sets.packets(name, self._scale.packets)

    def _tasks(self) -> DataSet:
        return data_sets.tasks(self._scale.tasks)

    def _medians(self) -> list[Record]:
        """Figures 6 to 8: window time, memory and error, with one group and with many."""
        cases = [Case(data, PACKET_BUDGET) for data in self._packets()]
        cases[-1] = replace(cases[-1], faster=FASTER_MEDIAN, smaller=SMALLER_MEDIAN)
        cases += [Case(data_sets.rides(name, self._scale.rides), RIDE_BUDGET) for name in ("DEBS", "NYC")]
        cases.append(Case(data_sets.flights(self._scale.flights), FLIGHT_BUDGET))
        compared = [self._compare(case) for case in cases]
        self._picture.pairs += [comparison.pair() for comparison in compared]
        return [record for comparison in compared for record in comparison.records()]

    def _window_sizes(self) -> list[Record]:
        """Figure 10: the same budget for windows of 15, 30 and 60 minutes. The last is also in figure 8."""
        records, data = [], self._tasks()
        for seconds in TASK_SIZES:
            target = FASTER_GROUPS if seconds == TASK_SIZES[-1] else None
            compared = self._compare(Case(data.over(seconds * SECOND, seconds * SECOND // 2), TASK_BUDGET, target))
            self._picture.by_size[seconds] = compared.pair()
            records += compared.records()
        self._picture.pairs.append(self._picture.by_size[TASK_SIZES[-1]])
        return records

    def _compare(self, case: Case) -> Compared:
        with self._running.step(case.title):
            data, allowed = case.data, within(case.budget, ERROR, groups=case.data.groups)
            plans = [plan_of(data, MEDIAN), plan_of(data, MEDIAN, allowed)]
            exact, approximate = fastest_in_turn(data, plans, self._scale.turns)
            return Compared(case, exact, approximate, *errors_of(data, approximate, MEDIAN, case.budget))

    def _budgets(self) -> list[Record]:
        """Figures 11 and 12: means from samples alone, by budget."""
        for budget in MEAN_BUDGETS:
            with self._running.step(f"mean from samples, budget {budget:,}"):
                self._picture.budgets.append(self._mean_from_samples(budget))
        return records_of.of_budgets(self._picture.budgets)

    def _mean_from_samples(self, budget: int) -> Budget:
        """Errors of windows without common tuples, with several samples of each."""
        errors, accelerated, seconds = [], [], []
        for data in self._packets():
            for seed in range(self._scale.seeds):
                ran = replay(data, plan_of(data, MEAN, within(budget, ERROR, incremental=False, seed=seed)))
                of_windows, is_accelerated = errors_of(data, ran, MEAN, budget)
                errors.append(of_windows[data.apart])
                accelerated.append(is_accelerated[data.apart])
                seconds.append(ran.mean)
        return Budget(budget, np.concatenate(errors), np.concatenate(accelerated), fmean(seconds))

    def _count_windows(self) -> list[Record]:
        """Figure 9: the total time of medians over count windows, by their number of packets."""
        data = data_sets.packets("even", self._scale.packets)
        rows = PACKETS_IN_WINDOW * data.slide // data.size
        records = []
        for count in self._scale.counts:
            with self._running.step(f"windows of {count:,} packets"):
                plans = [plan_of(data, MEDIAN, allowed, W.count(count)) for allowed in (None, within(PACKET_BUDGET))]
                exact, approximate = (replay_in_batches(data, plan, rows) for plan in plans)
                self._picture.by_count[count] = exact, approximate
                records.append(records_of.of_count(count, len(data.tuples), exact, approximate))
        return records

    def _incremental(self) -> list[Record]:
        """Figure 8 and table 2: grouped means from panes, against a scan of the tuples and against CountMin."""
        records = []
        for data, budget in ((self._tasks(), TASK_BUDGET), (data_sets.rides("DEBS", self._scale.rides), RIDE_BUDGET)):
            with self._running.step(f"{data.title}: grouped mean"):
                ran = replay(data, plan_of(data, MEAN, within(budget)))
                target = BESIDE_SCAN if data.groups else None  # there are few rides, so a scan takes no time
                records.append(records_of.beside(data, ran, "a scan", scan_seconds(data), target))
                records.append(records_of.beside(data, ran, "a scan without a store", raw_scan_seconds(data), None))
            with self._running.step(f"{data.title}: grouped mean by CountMin"):
                sketched = count_min_seconds(data, self._scale.sketched) if has_count_min() else None
                target = BESIDE_COUNT_MIN if data.groups else None
                records.append(records_of.beside(data, ran, "CountMin", sketched, target))
        return records

    def _fallback(self) -> Iterator[Record]:
        """The cost of a sample that is never good enough, against no sample.

        The budget is far too small, or slightly too small, or has fewer tuples than there are groups, or too few per
        group.
        """
        packets = data_sets.packets("even", self._scale.packets)
        yield self._fall_back(packets, FALLBACK_BUDGET, FALLBACK_ERROR)
        yield self._fall_back(packets, NEARLY_BUDGET, ERROR)
        yield self._fall_back(data_sets.rides("DEBS", 4 * self._scale.rides, workers=1), RIDE_BUDGET, ERROR)
        yield self._fall_back(data_sets.flights(self._scale.flights), FLIGHT_BUDGET, ERROR)

    def _fall_back(self, data: DataSet, budget: int, error: float) -> Record:
        plans = [plan_of(data, MEDIAN), plan_of(data, MEDIAN, within(budget, error))]
        what = f"{data.title}, budget {budget:,} and error {error:.0%}"
        with self._running.step(f"windows that all fall back, {what}"):
            exact, tried = fastest_in_step(data, plans, self._scale.rounds)
        return records_of.of_fallback(what, len(data.tuples), exact, tried, self._scale.rounds, FALLBACK_TARGET)

    def _on_spark(self) -> Record:
        """A sliding median as a stream: every batch is a slide, and closes a window of sixty slides."""
        folder, scale = self._running.place / "slides", self._scale
        with self._running.step("Spark: making data"):
            write_tables(folder, _slides(scale.spark_rows, scale.spark_batches))
        rates: dict[str, list[float]] = {"exact": [], "approximate": []}
        for name in [*rates, *rates]:
            with self._running.step(f"Spark: {name} sliding median"):
                query = _sliding_median(stream(self._running.spark, folder), approximate=name == "approximate")
                measured = self._running.measure(query.to_df(), SPARK_WARM_UP)
                rates[name] += measured.rates
        progress = muntin.progress(measured.query)  # the last run was an approximate one
        approximate, exact = median(rates["approximate"]), median(rates["exact"])
        return Record(
            name=f"Spark, sliding median, size/slide {SPARK_PANES}: approximate against exact",
            rows_per_s=approximate,
            baseline=exact,
            ratio=approximate / exact,
            target=SPARK_TARGET,
            baseline_name="exact",
            note=f"no key, budget {SPARK_BUDGET:,}, error {SPARK_ERROR:.0%}; windows of "
            f"{scale.spark_rows * SPARK_PANES:,} rows, batches of {scale.spark_rows:,}, the two in turn; "
            f"{progress.approximate_windows} windows accelerated, {progress.exact_windows} not",
        )


def _slides(rows: int, batches: int) -> Iterator[pa.Table]:
    """One batch that fills the windows, then one per slide of a second."""
    rng = np.random.default_rng(7)
    begin = EPOCH
    for seconds in [SPARK_PANES, *([1] * (batches + SPARK_WARM_UP - 1))]:
        times = np.sort(rng.integers(begin, begin + seconds * SECOND, rows * seconds))
        columns = {
            "ts": pa.array(times).cast(data_sets.TIME),
            "key": pa.array(np.zeros(len(times), dtype=np.int32)),
            "value": pa.array(rng.random(len(times))),
        }
        yield pa.table(columns)
        begin += seconds * SECOND


def _sliding_median(frame: DataFrame, approximate: bool) -> muntin.Query:
    window = W.sliding(f"{SPARK_PANES} seconds", "1 second")
    query = muntin.over(frame, window, time="ts", watermark="1 second").agg(middle=A.median("value"))
    return query.approximate(SPARK_BUDGET, SPARK_ERROR) if approximate else query
