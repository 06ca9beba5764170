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
"""Any fixed moment would do; this is the end of 2013, in seconds."""


def load() -> pa.Table:
    with as_file(files("muntin") / "data" / "flights.parquet") as path:
        return pq.read_table(path)


def in_order_of_report(flights: pa.Table) -> tuple[pa.Table, pa.Array]:
    """The flights as they became known, and when: a delayed flight is reported when it leaves at last.

    So the stream is out of order for a real reason. A cancelled flight is reported at its scheduled time.
    """
    scheduled = np.asarray(flights["departure"].cast(pa.int64()))
    delay = np.asarray(flights["dep_delay"].fill_null(0)).astype(np.int64)
    reported = scheduled + delay * _MINUTE
    order = np.argsort(reported, kind="stable")
    return flights.take(pa.array(order)), pa.array(reported[order])


def write_months(directory: Path, months: int) -> int:
    """One file for each of the first months, in the order in which a stream will read them; returns the rows."""
    flights, reported = in_order_of_report(load())
    month = np.asarray(reported).astype("datetime64[us]").astype("datetime64[M]")
    # The flights that were due in the last minutes of the year and left in the next belong to its last file.
    month = np.minimum(month, np.datetime64("2013-12"))
    rows = 0
    for number in range(months):
        part = flights.filter(pa.array(month == np.datetime64("2013-01") + number))
        path = directory / f"2013-{number + 1:02}.parquet"
        pq.write_table(part, path)
        # A file stream reads the oldest file first, and files written within one second are of one age.
        os.utime(path, (_FIRST_FILE_WRITTEN + number, _FIRST_FILE_WRITTEN + number))
        rows += part.num_rows
    return rows


def stream(spark: SparkSession, directory: Path) -> DataFrame:
    """The files as a stream, one to a batch."""
    schema = spark.read.parquet(str(directory)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))
