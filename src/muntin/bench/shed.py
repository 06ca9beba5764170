"""Load shedding, concept-driven and uniform: latency and error by rate, and under overload (CoD, figures 2, 8–10).

The latency of a window is the time from the watermark to its answers. It is measured without an engine, which shows the
cost of the methods alone, and on Spark, as Katsipoulakis et al. (2018), *CoD*, measure it on their engine. In addition,
a stream on Spark arrives three times as fast as the machine can process it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from muntin.bench import data_sets
from muntin.bench import shed_records as records_of
from muntin.bench.data_sets import MINUTE, SECOND, DataSet
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.shed_core import AT, MEAN, RATES, Compared, drift_of, pane_stage_seconds
from muntin.bench.shed_fit import SCHEMA, Fit
from muntin.bench.shed_on_spark import (
    CLOSING_WARM_UP,
    CONCEPT,
    SPARK_WARM_UP,
    UNIFORM,
    fares_on_spark,
    means_on_spark,
    rides_on_spark,
    slides_on_spark,
)
from muntin.bench.shed_overload import capacity, drive
from muntin.bench.shed_plot import Picture, draw
from muntin.bench.shed_records import Closing, Goals, OnSpark
from muntin.bench.steady import write_tables
from muntin.holistic.applied import Applied

FIT = Applied(Fit(degree=3, rounds=5), SCHEMA, ("time", "value"), "arrow")
TARGET_LATENCY = 2
"""Seconds."""
OVERLOAD = 3


@dataclass(frozen=True)
class Scale:
    """The size of the run."""

    packets: int
    """Tuples of each data set."""
    tasks: int
    rides: int
    flights: int
    zipf: int
    rates: tuple[float, ...]
    rounds: int
    """How often all systems run in turn, each time with another seed."""
    seeds: int
    """Rounds for data with few groups or none, where the methods differ mostly by noise."""
    fits: int
    """Rounds for a window function."""
    fitted: int
    """Tuples for the window function."""
    spark_rows: int
    """Rows of a batch on Spark, which is a slide."""
    spark_rounds: int
    """How often the methods run in turn on Spark."""
    closing_rates: tuple[float, ...]
    """Rates at which windows close on Spark, for every data set with many groups."""
    closing_rounds: int
    """How often the methods run in turn for that."""
    seconds: float
    """Seconds of the stream under overload."""
    plain_seconds: float
    """Seconds of the same stream without shedding."""


FULL = Scale(
    packets=600_000,
    tasks=2_000_000,
    rides=100_000,
    flights=3_000_000,
    zipf=1_000_000,
    rates=RATES,
    rounds=7,
    seeds=7,
    fits=21,
    fitted=640_000,
    spark_rows=4_000_000,
    spark_rounds=6,
    closing_rates=(AT, 0.99),
    closing_rounds=5,
    seconds=120,
    plain_seconds=120,
)
QUICK = Scale(
    packets=200_000,
    tasks=700_000,
    rides=30_000,
    flights=1_000_000,
    zipf=300_000,
    rates=(0.75, AT),
    rounds=1,
    seeds=3,
    fits=1,
    fitted=500_000,
    spark_rows=400_000,
    spark_rounds=1,
    closing_rates=(AT,),
    closing_rounds=1,
    seconds=50,
    plain_seconds=20,
)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if every target is met."""
    scale = QUICK if quick else FULL
    return run_benchmark("shed", "Load shedding", out, lambda running: _Bench(running, scale).run())


Make: TypeAlias = Callable[[], DataSet]


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._scale = scale
        self._picture = Picture(target=TARGET_LATENCY)

    def run(self) -> tuple[list[Record], Draw]:
        on_spark = 1 + sum(1 + 2 * len(self._rates_on_spark(number)) for number in range(self._scale.spark_rounds))
        closing = len(self._with_many_groups())
        self._running.steps(len(self._grouped()) + len(self._scalar()) + 2 + 2 + 1 + on_spark + closing + 3)
        records = [*self._drift(), *self._means(), *self._fits(), *self._pane_stage()]
        records += [*self._on_spark(), *self._closing(), *self._overload()]
        return records, partial(draw, self._picture)

    def _grouped(self) -> list[tuple[Make, Goals]]:
        """The grouped data sets. All but `zipf` are real if their files exist."""
        scale = self._scale
        return [
            (partial(data_sets.rides, "DEBS", scale.rides, workers=1), Goals(rare_groups=True)),
            (partial(data_sets.rides, "NYC", scale.rides, workers=1), Goals(rare_groups=True)),
            (partial(data_sets.zipf, scale.zipf), Goals(rare_groups=True)),
            (partial(data_sets.flights, scale.flights), Goals()),
            (partial(data_sets.tasks, scale.tasks), Goals(alike=True)),
        ]

    def _scalar(self) -> list[tuple[Make, Goals]]:
        names = ("DEC", "Bellcore")
        return [(partial(data_sets.packets, name, self._scale.packets), Goals(alike=True)) for name in names]

    def _drift(self) -> list[Record]:
        """Figure 2. Repeated files do not drift within the usual windows, so they get shorter ones."""
        records = []
        with self._running.step("concepts of neighbouring windows"):
            for make, _ in self._grouped():
                data = make()
                if data.name.startswith("DEBS"):
                    data = data.over(9 * MINUTE, 3 * MINUTE)
                if data.groups is not None:
                    data = data.over(60 * SECOND, 20 * SECOND)
                self._picture.drifts[data.name] = drift = drift_of(data)
                records.append(records_of.of_drift(data, drift))
        return records

    def _means(self) -> list[Record]:
        """Figures 8 to 10."""
        records = []
        for make, goals in [*self._grouped(), *self._scalar()]:
            data = make()
            with self._running.step(f"{data.title}: means"):
                compared = Compared(data, MEAN, self._scale.rates)
                compared.run(self._scale.seeds if goals.alike else self._scale.rounds)
            self._picture.means.append(compared)
            records += records_of.of_means(compared, goals)
        return [*records, records_of.of_all_means(self._picture.means)]

    def _fits(self) -> list[Record]:
        """Figure 8, with an expensive function per window."""
        records, count = [], self._scale.fitted
        for data in (data_sets.packets("DEC", count), data_sets.tasks(count)):
            with self._running.step(f"{data.title}: fits"):
                compared = Compared(data, FIT, (AT,))
                compared.run(self._scale.fits)
            self._picture.fits.append(compared)
            records += records_of.of_fits(compared)
        return records

    def _pane_stage(self) -> list[Record]:
        records = []
        for data in (data_sets.zipf(self._scale.zipf), data_sets.packets("DEC", self._scale.packets)):
            with self._running.step(f"{data.title}: pane stage"):
                records += records_of.of_pane_stage(data, pane_stage_seconds(data, self._scale.rounds + 2))
        return records

    def _on_spark(self) -> list[Record]:
        """Means by group as a stream. The aggregate is cheap, so this shows the cost of shedding itself."""
        running, rows = self._running, self._scale.spark_rows
        with running.step("Spark: making rides"):
            folder = write_tables(running.place / "rides", rides_on_spark(rows))
        measured = OnSpark()
        for number in range(self._scale.spark_rounds):
            with running.step("Spark: means by route, normal"):
                measured.add_normal(running.measure(fares_on_spark(running.spark, folder, None), SPARK_WARM_UP))
            for rate in self._rates_on_spark(number):
                for method in (UNIFORM, CONCEPT):
                    with running.step(f"Spark: means by route, {method} at {rate:.0%}"):
                        query = fares_on_spark(running.spark, folder, method, rate)
                        measured.add(method, rate, running.measure(query, SPARK_WARM_UP))
        return records_of.on_spark(rows, measured)

    def _rates_on_spark(self, number: int) -> list[float]:
        """The rates of a round: CoD's rate in every round, the others in every second one."""
        return [rate for rate in self._scale.rates if rate == AT or number % 2 == 0]

    def _with_many_groups(self) -> list[Make]:
        return [make for make, goals in self._grouped() if not goals.alike]

    def _closing(self) -> list[Record]:
        """Windows that close on Spark, at the rates where uniform shedding has the fewest groups left."""
        running, records = self._running, []
        for make in self._with_many_groups():
            data = make()
            with running.step(f"Spark: {data.title}, windows that close"):
                folder = write_tables(running.place / data.name.replace(" ", "-"), slides_on_spark(data))
                closings = [Closing(data, rate) for rate in self._scale.closing_rates]
                for _ in range(self._scale.closing_rounds):
                    for closing in closings:
                        for method in (UNIFORM, CONCEPT):
                            query = means_on_spark(running.spark, folder, data, method, closing.rate)
                            closing.add(method, running.measure(query, CLOSING_WARM_UP))
            records += [records_of.of_closing(closing) for closing in closings]
        return records

    def _overload(self) -> list[Record]:
        """The shed stream runs first, before the other one strains the machine."""
        running, scale, picture = self._running, self._scale, self._picture
        with running.step("Spark: capacity of the machine"):
            rows_per_s = capacity(running.spark, running.place)
        arrival_rate = round(OVERLOAD * rows_per_s)
        with running.step("Spark: overload, shed for a target latency"):
            target = f"{TARGET_LATENCY} seconds"
            picture.shed = drive(running.spark, running.place, arrival_rate, scale.seconds, target, running.tick)
        with running.step("Spark: overload without shedding"):
            picture.plain = drive(running.spark, running.place, arrival_rate, scale.plain_seconds, None, running.tick)
        return records_of.of_overload(rows_per_s, TARGET_LATENCY, picture.shed, picture.plain)
