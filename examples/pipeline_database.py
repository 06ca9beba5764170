"""Delays at airports, every hour, into a table of a database: SQLite, or PostgreSQL if it is given.

python examples/pipeline_database.py "host=localhost dbname=flights user=me"
"""

import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin import aggregates as A
from muntin import windows as W


def flights(spark: SparkSession) -> DataFrame:
    """A stream of the flights that come with Muntin."""
    files = str(Path(muntin.__file__).parent / "data" / "*.parquet")
    return spark.readStream.schema(spark.read.parquet(files).schema).parquet(files)


def delays(flights: DataFrame) -> muntin.Query:
    over = muntin.over(flights, W.sliding("1 day", "1 hour"), time="departure", watermark="2 hours", by="origin")
    return over.agg(flights=A.count(), mean_delay=A.mean("dep_delay"))


def connection(address: str | None, folder: str) -> Callable[[], Any]:
    """A function that opens connections: the driver calls it for each batch."""
    if address is None:
        return lambda: sqlite3.connect(Path(folder, "flights.db"))
    import psycopg

    return lambda: psycopg.connect(address)


def main(address: str | None = None) -> None:
    spark = muntin.session()
    with tempfile.TemporaryDirectory() as folder:
        connect = connection(address, folder)
        writer = muntin.upsert(delays(flights(spark)).to_df(), "delays", format="dbapi", connect=connect)
        writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()

        with closing(connect()) as opened:
            cursor = opened.cursor()
            cursor.execute("SELECT origin, flights, mean_delay FROM delays ORDER BY mean_delay DESC LIMIT 3")
            for origin, count, mean in cursor.fetchall():
                print(f"{origin}  {count} flights  {mean:.1f} minutes")
            cursor.execute("SELECT count(*) FROM delays")
            print(cursor.fetchone()[0], "windows in the table")


if __name__ == "__main__":
    main(*sys.argv[1:])
