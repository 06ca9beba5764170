"""The Yahoo streaming benchmark: views of ads, joined with their campaigns and counted, beside Spark's `window()`.

The events are a stream of files; the campaigns are a table, which Spark joins by broadcast in front of both. Windows
are of 10 seconds, as in the benchmark, and of 1 second every 10 ms, as in SPRINGALD's evaluation. The answers are
compared as tables. The median batch counts, behind one that warms up; where a batch of Spark's would take minutes, it
gets smaller ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.bars import draw
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import stream, write_tables
from muntin.bench.ysb_data import batches, campaigns, generate
from muntin.spark.session import PARTITIONS, partitions

SCHEMA = (
    "user_id string, page_id string, ad_id string, ad_type string, event_type string, event_time timestamp, "
    "ip_address string"
)
WINDOWS: Mapping[str, tuple[str, str]] = {
    "1 s by 10 ms": ("1 second", "10 milliseconds"),
    "tumbling, 10 s": ("10 seconds", "10 seconds"),
}
DELAY = "1 second"
OURS, SPARK = "Muntin", "Spark"
WARM_UP = 1


@dataclass(frozen=True)
class Load:
    events: int
    """In a batch."""
    batches: int


@dataclass(frozen=True)
class Scale:
    ours: Load
    sparks: Mapping[str, Load]
    """Spark's batches, by window."""
    compared: int
    per_second: int = 100_000
    """Events per second of event time."""


_FULL, _QUICK = Load(6_000_000, 4), Load(100_000, 2)
FULL = Scale(_FULL, dict(zip(WINDOWS, (Load(1_000_000, 3), _FULL), strict=True)), compared=300_000)
QUICK = Scale(_QUICK, dict(zip(WINDOWS, (Load(20_000, 2), _QUICK), strict=True)), compared=20_000)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if all answers agree."""
    scale = QUICK if quick else FULL
    title = "Yahoo streaming benchmark: events per second"
    return run_benchmark("ysb", title, out, lambda running: _Bench(running, scale).run())


def views(events: DataFrame, ads: DataFrame) -> DataFrame:
    """The views, with their campaign."""
    of_views = events.where("event_type = 'view'").select("ad_id", "event_time")
    return of_views.join(F.broadcast(ads), "ad_id").select("campaign_id", "event_time")


def ours(rows: DataFrame, size: str, slide: str) -> DataFrame:
    watermark = DELAY if rows.isStreaming else None
    query = muntin.over(rows, W.sliding(size, slide), time="event_time", watermark=watermark, by="campaign_id")
    return query.agg(views=A.count()).to_df()


def sparks(rows: DataFrame, size: str, slide: str) -> DataFrame:
    rows = rows.withWatermark("event_time", DELAY) if rows.isStreaming else rows
    return rows.groupBy(F.window("event_time", size, slide), "campaign_id").agg(F.count("*").alias("views"))


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._scale = scale
        self._plain = running.spark.newSession()  # with Spark's own settings and state store
        self._plain.conf.set(PARTITIONS, str(partitions(running.spark)))
        running.steps(2 + 3 * len(WINDOWS))

    def run(self) -> tuple[list[Record], Draw]:
        with self._running.step("making events"):
            folders = {load: self._write(load) for load in {self._scale.ours, *self._scale.sparks.values()}}
        with self._running.step("warming up"):
            last = list(WINDOWS)[-1]
            for system in (OURS, SPARK):
                self._rate(system, last, folders[self._scale.ours])
        rates: dict[str, dict[str, float]] = {name: {} for name in WINDOWS}
        for name in WINDOWS:
            for system, load in ((OURS, self._scale.ours), (SPARK, self._scale.sparks[name])):
                with self._running.step(f"{name}, {system}"):
                    rates[name][system] = self._rate(system, name, folders[load])
        unequal = {}
        for name in WINDOWS:
            with self._running.step(f"{name}, comparing answers"):
                unequal[name] = compared(self._running.spark, self._plain, name, self._scale)
        return records(rates, unequal, self._scale), partial(draw, rates, "Yahoo streaming benchmark on two cores")

    def _write(self, load: Load) -> Path:
        folder = self._running.place / f"events-{load.events}"
        return write_tables(folder, batches(load.batches, load.events, self._scale.per_second))

    def _rate(self, system: str, window: str, folder: Path) -> float:
        spark = self._running.spark if system == OURS else self._plain
        rows = views(stream(spark, folder, SCHEMA), spark.createDataFrame(campaigns()))
        frame = (ours if system == OURS else sparks)(rows, *WINDOWS[window])
        return self._running.measure(frame, WARM_UP).rows_per_s


def compared(spark: SparkSession, plain: SparkSession, window: str, scale: Scale) -> int:
    """How many answers over a table of events differ from Spark's."""
    events = generate(0, scale.compared, scale.per_second)
    answers: list[Counter[Any]] = []
    for session, system in ((spark, ours), (plain, sparks)):
        frame = system(
            views(session.createDataFrame(events), session.createDataFrame(campaigns())), *WINDOWS[window]
        ).selectExpr("unix_micros(window.start)", "unix_micros(window.end)", "campaign_id", "views")
        answers.append(Counter(map(tuple, frame.collect())))
    return ((answers[0] - answers[1]) + (answers[1] - answers[0])).total()


def records(rates: Mapping[str, Mapping[str, float]], unequal: Mapping[str, int], scale: Scale) -> list[Record]:
    found = []
    for name, of_window in rates.items():
        load = scale.sparks[name]
        fewer = "" if load == scale.ours else f"; Spark's batches have {load.events:,}"
        found.append(
            Record(
                name=f"{name}: Muntin against Spark",
                rows_per_s=of_window[OURS],
                baseline=of_window[SPARK],
                ratio=of_window[OURS] / of_window[SPARK],
                target=None,
                baseline_name="Spark",
                note=f"batches of {scale.ours.events:,} events, a third of them views{fewer}",
            )
        )
    found += [
        Record(f"{name}: results that differ from Spark's", None, None, float(count), 0.0, "lower")
        for name, count in unequal.items()
    ]
    return found
