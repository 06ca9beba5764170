"""Nexmark: the queries with windows of the auction house, as streams, beside Spark's own.

A stream of files is measured in steady state: the median batch behind the first. Muntin reads it as Spark does, and
with `muntin.scan`. The answers are compared as tables. Query 6 begins with the winning bids, which have no window;
Spark cannot say it on streams. Where `MUNTIN_FLINK` names a Python that has the package apache-flink, Flink SQL reads
the same files beside them (docs/benchmarks.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin.bench import flink
from muntin.bench.bars import draw
from muntin.bench.nexmark_data import Events, batches, generate, sold
from muntin.bench.nexmark_flink import NEXMARK
from muntin.bench.nexmark_systems import DELAY, QUERIES, Query, differences
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import FILES_PER_BATCH, stream, write_tables
from muntin.query.scan import Scan
from muntin.spark.session import PARTITIONS, partitions

SCAN, FRAME, SPARK, FLINK = "Muntin, muntin.scan", "Muntin, DataFrame", "Spark", "Flink SQL"
WARM_UP = 1
"""Batches of each run that do not count."""
Rates: TypeAlias = Mapping[str, Mapping[str, float]]
"""Rows per second of each system, by query."""


@dataclass(frozen=True)
class Scale:
    events: int
    """In a batch."""
    batches: int
    compared: int
    """Events of the table over which answers are compared."""


FULL = Scale(events=1_500_000, batches=4, compared=500_000)
QUICK = Scale(events=50_000, batches=2, compared=50_000)


def run(out: Path, quick: bool = False) -> int:
    """Measure, compare, show and write; 0 if all answers agree."""
    scale = QUICK if quick else FULL
    title = f"Nexmark: streams of {scale.events * scale.batches:,} events, rows per second"
    return run_benchmark("nexmark", title, out, lambda running: _Bench(running, scale).run())


class _Bench:
    def __init__(self, running: Running, scale: Scale) -> None:
        self._running = running
        self._scale = scale
        self._plain = running.spark.newSession()  # with Spark's own settings and state store
        self._plain.conf.set(PARTITIONS, str(partitions(running.spark)))
        self._rows: dict[str, int] = {}
        running.steps(2 + 4 * len(QUERIES) + flink.is_there())

    def run(self) -> tuple[list[Record], Draw]:
        with self._running.step("making events"):
            self._write()
        with self._running.step("warming up"):
            for system in (SCAN, FRAME, SPARK):
                self._rate(system, QUERIES[-1])
        rates: dict[str, dict[str, float]] = {query.name: {} for query in QUERIES}
        for query in QUERIES:
            for system in (SCAN, FRAME, SPARK):
                with self._running.step(f"{query.name}, {system}"):
                    rate = self._rate(system, query)
                    if rate is not None:
                        rates[query.name][system] = rate
        unequal = {}
        for query in QUERIES:
            with self._running.step(f"{query.name}, comparing answers"):
                unequal[query.name] = compared(self._running.spark, self._plain, query, self._scale.compared)
        if flink.is_there():
            with self._running.step(FLINK):
                for name, seconds in flink.seconds(NEXMARK, self._running.place).items():
                    query = next(query for query in QUERIES if query.name == name)
                    rates[name][FLINK] = sum(self._rows[each] for each in query.inputs) / seconds
                last = replace(NEXMARK, queries={"Q12": NEXMARK.queries["Q12"]})
                counted = flink.seconds(last, self._running.place, "SUM(bids)")["Q12"]
                unequal[FLINK] = abs(self._rows["bids"] - int(counted))  # that none was late, and none left out
        return records(rates, unequal), partial(draw, rates, "Nexmark on two cores, million rows per second")

    def _write(self) -> None:
        events = list(batches(self._scale.batches, self._scale.events))
        tables = {name: [table_of(name, each) for each in events] for name in ("persons", "auctions", "bids")}
        winners = sold(pa.concat_tables(tables["auctions"]), pa.concat_tables(tables["bids"]))
        share = -(-len(winners) // len(events))
        tables["sold"] = [winners.slice(begin, share) for begin in range(0, len(winners), share)]
        for name, of_batches in tables.items():
            write_tables(self._running.place / name, of_batches)
            self._rows[name] = sum(map(len, of_batches))

    def _rate(self, system: str, query: Query) -> float | None:
        """Rows per second of the median batch; None where a system cannot say the query."""
        if (system == SCAN and len(query.inputs) > 1) or (system == SPARK and not query.streams):
            return None  # joins take DataFrames
        if system == SPARK:
            frame = query.spark(*(self._stream(self._plain, name) for name in query.inputs))
        elif system == FRAME:
            frame = query.muntin(*(self._stream(self._running.spark, name) for name in query.inputs), watermark=DELAY)
        else:
            frame = query.muntin(self._scan(query.inputs[0]), watermark=DELAY)
        return self._running.measure(frame, WARM_UP).rows_per_s

    def _stream(self, spark: SparkSession, name: str) -> DataFrame:
        folder = self._running.place / name
        return stream(spark, folder, spark.read.parquet(str(folder)).schema)

    def _scan(self, name: str) -> Scan:
        folder = self._running.place / name
        return muntin.scan(self._running.spark, folder, streaming=True, max_files_per_batch=FILES_PER_BATCH)


def table_of(name: str, events: Events) -> pa.Table:
    table: pa.Table = getattr(events, name)
    return table


def compared(spark: SparkSession, plain: SparkSession, query: Query, count: int) -> int:
    """How many answers over a table of events differ from Spark's."""
    events = generate(0, count)
    winners = sold(events.auctions, events.bids)
    inputs = [winners if name == "sold" else table_of(name, events) for name in query.inputs]
    from_scratch = ("auctions", "bids") if query.inputs == ("sold",) else query.inputs  # Spark finds the winning bids
    mine = query.muntin(*map(spark.createDataFrame, inputs))
    theirs = query.spark(*(plain.createDataFrame(table_of(name, events)) for name in from_scratch))
    return differences(query.answer, mine, theirs)


def records(rates: Rates, unequal: Mapping[str, int]) -> list[Record]:
    """A figure of Muntin beside each of the others, and whether the answers agree."""
    found = []
    for query in QUERIES:
        of_query = rates[query.name]
        for ours in (SCAN, FRAME):
            if ours not in of_query:
                continue
            others: list[str | None] = [other for other in (SPARK, FLINK) if other in of_query]
            found += [
                Record(
                    name=f"{query.name}, {query.title}: {ours}",
                    rows_per_s=of_query[ours],
                    baseline=None if other is None else of_query[other],
                    ratio=None if other is None else of_query[ours] / of_query[other],
                    target=None,
                    baseline_name=other or "",
                )
                for other in others or [None]
            ]
    for name, count in unequal.items():
        what = f"{FLINK}: bids that Q12 misses" if name == FLINK else f"{name}: results that differ from Spark's"
        found.append(Record(what, None, None, float(count), 0.0, "lower"))
    return found
