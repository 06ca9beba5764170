"""Delays at airports, every hour, into an Iceberg table, by Spark's MERGE: in a session with Iceberg's extension.

    spark-submit --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0 examples/pipeline_iceberg.py

Catalog and tables are files in a folder here, which is its argument; your catalog is of another type.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin import aggregates as A
from muntin import windows as W


def session(folder: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", f"{folder}/lake")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
    )
    return muntin.configure(builder.getOrCreate())


def flights(spark: SparkSession) -> DataFrame:
    """A stream of the flights that come with Muntin."""
    files = str(Path(muntin.__file__).parent / "data" / "*.parquet")
    return spark.readStream.schema(spark.read.parquet(files).schema).parquet(files)


def delays(flights: DataFrame) -> muntin.Query:
    over = muntin.over(flights, W.sliding("1 day", "1 hour"), time="departure", watermark="2 hours", by="origin")
    return over.agg(flights=A.count(), mean_delay=A.mean("dep_delay"))


def main(folder: str = "iceberg-results") -> None:
    spark = session(folder)
    spark.sparkContext.setLogLevel("ERROR")
    writer = muntin.upsert(delays(flights(spark)).to_df(), "lake.airports.delays", format="iceberg-sql")
    writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()

    spark.catalog.refreshTable("lake.airports.delays")  # the session has a cache of its own, for half a minute
    table = spark.table("lake.airports.delays")
    table.select("origin", "flights", "mean_delay").orderBy("mean_delay", ascending=False).show(3, truncate=False)
    print(table.count(), "windows in the table")


if __name__ == "__main__":
    main(*sys.argv[1:])
