"""Delays at airports, every hour, into a Delta table that is right whenever the stream stops, without an extension."""

import tempfile
from pathlib import Path

import deltalake
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


def main() -> None:
    spark = muntin.session()
    with tempfile.TemporaryDirectory() as folder:
        # With `.emit("on_change")`, the table would also have the windows that are still open.
        writer = muntin.upsert(delays(flights(spark)).to_df(), f"{folder}/delays", format="delta")
        writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()

        # Any reader of Delta will do: Spark with Delta's extension, Polars, DuckDB, pandas; and muntin.scan.
        table = deltalake.DeltaTable(f"{folder}/delays").to_pandas().sort_values("mean_delay", ascending=False)
        print(table[["origin", "flights", "mean_delay"]].head(3).to_string(index=False))
        print(len(table), "windows in the table")


if __name__ == "__main__":
    main()
