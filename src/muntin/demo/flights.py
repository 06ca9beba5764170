"""The demo's data: the flights that left New York in 2013, as a stream of monthly files."""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

_MINUTE = 60_000_000
_FIRST_FILE_WRITTEN = 1_388_534_400
"""Modification time of the first file, in seconds: the end of 2013. Any fixed time works."""


def load() -> pa.Table:
    with as_file(files("muntin") / "data" / "flights.parquet") as path:
        return pq.read_table(path)


def in_order_of_report(flights: pa.Table) -> tuple[pa.Table, pa.Array]:
    """The flights in the order of their reports, and the times of the reports.

    A delayed flight is reported when it leaves. So the stream is out of order, as real streams are. A cancelled flight
    is reported at its scheduled time.
    """
    scheduled = np.asarray(flights["departure"].cast(pa.int64()))
    delay = np.asarray(flights["dep_delay"].fill_null(0)).astype(np.int64)
    reported = scheduled + delay * _MINUTE
    order = np.argsort(reported, kind="stable")
    return flights.take(pa.array(order)), pa.array(reported[order])


def write_months(directory: Path, months: int) -> int:
    """Write one file per month, in the order in which a stream reads them. Returns the number of rows."""
    flights, reported = in_order_of_report(load())
    month = np.asarray(reported).astype("datetime64[us]").astype("datetime64[M]")
    # Flights due at the end of December that left in January go into the last file.
    month = np.minimum(month, np.datetime64("2013-12"))
    rows = 0
    for number in range(months):
        flights_of_month = flights.filter(pa.array(month == np.datetime64("2013-01") + number))
        path = directory / f"2013-{number + 1:02}.parquet"
        pq.write_table(flights_of_month, path)
        # A file stream reads the oldest file first, and only compares whole seconds.
        os.utime(path, (_FIRST_FILE_WRITTEN + number, _FIRST_FILE_WRITTEN + number))
        rows += flights_of_month.num_rows
    return rows


def stream(spark: SparkSession, directory: Path) -> DataFrame:
    """The files as a stream, one file per batch."""
    schema = spark.read.parquet(str(directory)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))
