"""The systems of the tables benchmark: each computes the same sliding sums of the same Parquet files, its own way.

A window has an answer if there is a row in it. Where a system has only windows over rows, panes without rows are filled
in first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Float64Array
from muntin.bench.tables_data import FIRST, KEYS, Scale

SECOND = 1_000_000
PANES = 60
"""Panes of a second per window."""
SCAN, FRAME, GROUPED = "Muntin, muntin.scan", "Muntin, DataFrame", "Spark groupBy(key, pane) alone"
TILES, POLARS, DUCKDB, ARROW = "Spark, tiles by hand", "Polars", "DuckDB", "pyarrow and NumPy, panes alone"


@dataclass(frozen=True)
class System:
    name: str
    run: Callable[[], Any]
    """Computes everything, and returns it to where it would be used next."""
    answer: Callable[[], pa.Table] | None = None
    """The answers: key, start of the window in seconds, and total. None for a system that only computes panes."""
    rounds: int | None = None
    """In how many rounds it runs; None for all."""


def systems(spark: SparkSession, plain: SparkSession, folder: Path, scale: Scale) -> list[System]:
    """All systems. `plain` is a session with Spark's own settings."""
    place = str(folder)

    def rows() -> DataFrame:
        return plain.read.parquet(place)

    def of_spark(name: str, frame: Callable[[], DataFrame], windows: bool = True, rounds: int | None = None) -> System:
        def run() -> None:
            frame().write.format("noop").mode("overwrite").save()

        def answer() -> pa.Table:
            return _columns(frame().toArrow())

        return System(name, run, answer if windows else None, rounds)

    return [
        of_spark(SCAN, lambda: _muntin(muntin.scan(spark, place))),
        of_spark(FRAME, lambda: _muntin(spark.read.parquet(place))),
        of_spark(GROUPED, lambda: _panes(rows()), windows=False),
        System(POLARS, lambda: _polars(place), lambda: _columns(_polars(place).to_arrow())),
        System(DUCKDB, lambda: _duckdb(place), lambda: _columns(_duckdb(place))),
        System(ARROW, lambda: _arrow(folder, KEYS, scale.seconds, FIRST)),
        of_spark(TILES, lambda: _tiles(_panes(rows())), rounds=1),
    ]


def _muntin(data: Any) -> DataFrame:
    query = muntin.over(data, W.sliding(f"{PANES} seconds", "1 second"), time="ts", by="key").agg(total=A.sum("value"))
    return query.to_df().select("key", F.unix_seconds("window.start").alias("start"), "total")


def _panes(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key", F.unix_seconds("ts").alias("pane")).agg(F.sum("value").alias("total"))


def _tiles(panes: DataFrame) -> DataFrame:
    """Tumbling sums first, then a sum over 60 of them, with empty ones filled in: what Spark's users do by hand."""
    ends = panes.groupBy("key").agg(F.min("pane").alias("first"), F.max("pane").alias("last"))
    grid = ends.select("key", F.explode(F.sequence("first", F.col("last") + PANES - 1)).alias("pane"))
    filled = grid.join(panes, ["key", "pane"], "left")
    window = Window.partitionBy("key").orderBy("pane").rowsBetween(1 - PANES, 0)
    totals = filled.select(
        "key", (F.col("pane") - (PANES - 1)).alias("start"), F.sum("total").over(window).alias("total")
    )
    return totals.where("total IS NOT NULL")


def _polars(place: str) -> pl.DataFrame:
    panes = pl.scan_parquet(f"{place}/*.parquet").group_by("key", pl.col("ts").dt.truncate("1s").alias("start"))
    windows = (
        panes.agg(pl.col("value").sum().alias("total"))
        .sort("key", "start")
        .group_by_dynamic(
            "start",
            every="1s",
            period=f"{PANES}s",
            offset=f"-{PANES - 1}s",
            group_by="key",
            start_by="window",
        )
    )
    totals = windows.agg(pl.col("total").sum()).with_columns(pl.col("start").dt.epoch("s"))
    return totals.collect(engine="streaming")


def _duckdb(place: str) -> pa.Table:
    query = f"""
        WITH panes AS (
            SELECT key, epoch_us(ts) // {SECOND} AS pane, sum(value) AS total FROM '{place}/*.parquet' GROUP BY ALL
        ), grid AS (
            SELECT key, unnest(range(min(pane), max(pane) + {PANES})) AS pane FROM panes GROUP BY key
        ), totals AS (
            SELECT grid.key, grid.pane - {PANES - 1} AS start, sum(total) OVER (
                PARTITION BY grid.key ORDER BY grid.pane ROWS BETWEEN {PANES - 1} PRECEDING AND CURRENT ROW
            ) AS total
            FROM grid LEFT JOIN panes ON grid.key = panes.key AND grid.pane = panes.pane
        )
        SELECT key, start, total FROM totals WHERE total IS NOT NULL
    """
    with duckdb.connect() as connection:
        table: pa.Table = connection.sql(query).to_arrow_table()
        return table


def _arrow(folder: Path, keys: int, panes: int, first: int) -> Float64Array:
    """What one core needs at least: read the files, and add up the values of each key and pane."""
    totals = np.zeros(panes * keys)
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(1 << 18, columns=["ts", "key", "value"], use_threads=False):
                pane = np.asarray(batch["ts"].cast(pa.int64())) // SECOND - first
                begin = int(pane.min())
                sums = np.bincount((pane - begin) * keys + np.asarray(batch["key"]), np.asarray(batch["value"]))
                totals[begin * keys : begin * keys + len(sums)] += sums
    return totals


def _columns(table: pa.Table) -> pa.Table:
    """The answers in one order and in the same types."""
    schema = pa.schema([("key", pa.int64()), ("start", pa.int64()), ("total", pa.float64())])
    return table.select(schema.names).cast(schema).sort_by([("key", "ascending"), ("start", "ascending")])


def differences(answers: pa.Table, others: pa.Table) -> int:
    """How many answers differ, beyond rounding."""
    if len(answers) != len(others):
        return abs(len(answers) - len(others))
    same = np.ones(len(answers), dtype=bool)
    for name in ("key", "start"):
        same &= answers[name].to_numpy() == others[name].to_numpy()
    same &= np.isclose(answers["total"].to_numpy(), others["total"].to_numpy(), rtol=1e-9, atol=1e-6)
    return int((~same).sum())
