"""Nexmark: the queries with windows of the auction house, as streams, beside Spark's own.

A stream of files is measured in steady state: the median batch behind the first. Muntin reads it as Spark does, and
with `muntin.scan`. The answers are compared as tables. Query 6 begins with the winning bids, which have no window;
Spark cannot say it on streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin.bench.bars import draw
from muntin.bench.nexmark_data import Events, batches, generate, sold
from muntin.bench.nexmark_systems import DELAY, QUERIES, Query, differences
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.steady import FILES_PER_BATCH, stream, write_tables
from muntin.query.scan import Scan
from muntin.spark.session import PARTITIONS, partitions

SCAN, FRAME, SPARK = "Muntin, muntin.scan", "Muntin, DataFrame", "Spark"
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
        running.steps(2 + 4 * len(QUERIES))

    def run(self) -> tuple[list[Record], Draw]:
        with self._running.step("making events"):
            write_events(self._running.place, self._scale)
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
        return records(rates, unequal), partial(draw, rates, "Nexmark on two cores, million rows per second")

    def _rate(self, system: str, query: Query) -> float | None:
        """Rows per second of the median batch; None where a system cannot say the query."""
        if system != SPARK:
            return rate(self._running, system, query)
        if not query.streams:
            return None
        frame = query.spark(*(_stream(self._plain, self._running.place / name) for name in query.inputs))
        return self._running.measure(frame, WARM_UP).rows_per_s


def rate(running: Running, system: str, query: Query) -> float | None:
    """Rows per second of Muntin's median batch; None where it cannot say the query: joins take DataFrames."""
    folders = [running.place / name for name in query.inputs]
    if system == SCAN and len(folders) > 1:
        return None
    inputs = [_scan(running.spark, each) if system == SCAN else _stream(running.spark, each) for each in folders]
    return running.measure(query.muntin(*inputs, watermark=DELAY), WARM_UP).rows_per_s


def _stream(spark: SparkSession, folder: Path) -> DataFrame:
    return stream(spark, folder, spark.read.parquet(str(folder)).schema)


def _scan(spark: SparkSession, folder: Path) -> Scan:
    return muntin.scan(spark, folder, streaming=True, max_files_per_batch=FILES_PER_BATCH)


def write_events(place: Path, scale: Scale) -> dict[str, int]:
    """Write the streams, a folder of files each. Returns how many rows they have."""
    events = list(batches(scale.batches, scale.events))
    tables = {name: [table_of(name, each) for each in events] for name in ("persons", "auctions", "bids")}
    winners = sold(pa.concat_tables(tables["auctions"]), pa.concat_tables(tables["bids"]))
    share = -(-len(winners) // len(events))
    tables["sold"] = [winners.slice(begin, share) for begin in range(0, len(winners), share)]
    for name, of_batches in tables.items():
        write_tables(place / name, of_batches)
    return {name: sum(map(len, of_batches)) for name, of_batches in tables.items()}


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
    """Muntin's figures beside Spark's, and whether the answers agree."""
    found = beside(rates, SPARK)
    found += [
        Record(f"{name}: results that differ from Spark's", None, None, float(count), 0.0, "lower")
        for name, count in unequal.items()
    ]
    return found


def beside(rates: Rates, other: str) -> list[Record]:
    """Muntin's figures beside those of another system, where it has any."""
    found = []
    for query in QUERIES:
        of_query = rates[query.name]
        baseline = of_query.get(other)
        found += [
            Record(
                name=f"{query.name}, {query.title}: {ours}",
                rows_per_s=of_query[ours],
                baseline=baseline,
                ratio=None if baseline is None else of_query[ours] / baseline,
                target=None,
                baseline_name="" if baseline is None else other,
            )
            for ours in (SCAN, FRAME)
            if ours in of_query
        ]
    return found
