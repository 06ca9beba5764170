"""Nexmark's queries with windows in Flink SQL, beside Muntin over the same files (optional: docs/benchmarks.md).

The SQL is that of Flink's own Nexmark. Its package is not a dependency: `MUNTIN_FLINK` names a Python that has it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from muntin.bench import flink
from muntin.bench.bars import draw
from muntin.bench.flink import Job
from muntin.bench.nexmark import FRAME, FULL, QUICK, SCAN, Rates, Scale, beside, rate, write_events
from muntin.bench.nexmark_systems import QUERIES
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.errors import MuntinError

FLINK = "Flink SQL"

AT = "`at` TIMESTAMP(6), t AS CAST(`at` AS TIMESTAMP(3)), WATERMARK FOR t AS t - INTERVAL '1' DAY"
"""Watermarks are of milliseconds in Flink. They wait for the whole stream: Flink reads the files of a folder in any
order, so that with a shorter delay, rows would come too late.
"""
NEXMARK = Job(
    columns={
        "persons": f"id BIGINT, name STRING, city STRING, {AT}",
        "auctions": f"id BIGINT, seller BIGINT, {AT}",
        "bids": f"auction BIGINT, bidder BIGINT, price BIGINT, {AT}",
        "sold": f"auction BIGINT, seller BIGINT, price BIGINT, {AT}",
    },
    queries={
        "Q5": """
            SELECT window_start, auction, bids FROM (
                SELECT *, ROW_NUMBER() OVER (
                    PARTITION BY window_start, window_end ORDER BY bids DESC, auction
                ) AS place FROM (
                    SELECT window_start, window_end, auction, COUNT(*) AS bids
                    FROM TABLE(HOP(TABLE bids, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
                    GROUP BY window_start, window_end, auction
                )
            ) WHERE place <= 1""",
        "Q6": """
            SELECT seller, AVG(price) OVER (
                PARTITION BY seller ORDER BY t ROWS BETWEEN 9 PRECEDING AND CURRENT ROW
            ) AS mean_price FROM sold""",
        "Q7": """
            SELECT window_start, price, auction, bidder FROM (
                SELECT *, ROW_NUMBER() OVER (
                    PARTITION BY window_start, window_end ORDER BY price DESC, `at`
                ) AS place FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(t), INTERVAL '10' SECOND))
            ) WHERE place <= 1""",
        "Q8": """
            SELECT P.window_start, P.id, P.name, A.auctions FROM (
                SELECT window_start, window_end, id, MAX(name) AS name
                FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(t), INTERVAL '10' SECOND))
                GROUP BY window_start, window_end, id
            ) P JOIN (
                SELECT window_start, window_end, seller, COUNT(*) AS auctions
                FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(t), INTERVAL '10' SECOND))
                GROUP BY window_start, window_end, seller
            ) A ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end""",
        "Q11": """
            SELECT window_start, window_end, bidder, COUNT(*) AS bids
            FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(t), INTERVAL '10' SECOND))
            GROUP BY window_start, window_end, bidder""",
        "Q12": """
            SELECT window_start, bidder, COUNT(*) AS bids
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(t), INTERVAL '10' SECOND))
            GROUP BY window_start, window_end, bidder""",
    },
)


def run(out: Path, quick: bool = False) -> int:
    """Measure, count, show and write; 0 if Flink counts every bid."""
    if not flink.is_there():
        raise MuntinError(
            f"{flink.PYTHON} names no Python that has the package apache-flink; docs/benchmarks.md says how."
        )
    scale = QUICK if quick else FULL
    title = f"Nexmark: streams of {scale.events * scale.batches:,} events, rows per second"
    return run_benchmark("nexmark-flink", title, out, lambda running: _measured(running, scale))


def _measured(running: Running, scale: Scale) -> tuple[list[Record], Draw]:
    running.steps(3 + 2 * len(QUERIES) + 1)
    with running.step("making events"):
        rows = write_events(running.place, scale)
    with running.step("warming up"):
        for system in (SCAN, FRAME):
            rate(running, system, QUERIES[-1])
    rates: dict[str, dict[str, float]] = {query.name: {} for query in QUERIES}
    for query in QUERIES:
        for system in (SCAN, FRAME):
            with running.step(f"{query.name}, {system}"):
                own = rate(running, system, query)
                rates[query.name].update({} if own is None else {system: own})
    with running.step(FLINK):
        seconds = flink.seconds(NEXMARK, running.place)
        for query in QUERIES:
            rates[query.name][FLINK] = sum(rows[name] for name in query.inputs) / seconds[query.name]
    with running.step(f"{FLINK}, counting bids"):
        last = replace(NEXMARK, queries={"Q12": NEXMARK.queries["Q12"]})
        missed = rows["bids"] - int(flink.seconds(last, running.place, "bids")["Q12"])
    return records(rates, missed), partial(draw, rates, "Nexmark on two cores, million rows per second")


def records(rates: Rates, missed: int) -> list[Record]:
    counted = Record("bids that Flink SQL misses in Q12", None, None, float(abs(missed)), 0.0, "lower")
    return [*beside(rates, FLINK), counted]
