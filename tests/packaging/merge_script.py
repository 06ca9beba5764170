"""`muntin.upsert` into tables of Delta and Iceberg by Spark's MERGE. Arguments: a new folder, and that of the jars."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W

START = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
MINUTES = ([0, 1, 12, 40], [8, 33, 41], [50, 20, 2], [95])
"""Sessions of 10 minutes: some grow together and are retracted."""


TARGETS: tuple[tuple[str, Literal["delta", "iceberg-sql"]], ...] = (
    ("by path", "delta"),
    ("default.by_name", "delta"),
    ("ice.db.sessions", "iceberg-sql"),
)
ICEBERG = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def session(folder: Path, jars: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.extensions", f"io.delta.sql.DeltaSparkSessionExtension,{ICEBERG}")
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", str(folder / "ice"))
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.jars", ",".join(map(str, jars.glob("*.jar"))))
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
    )
    return muntin.configure(builder.getOrCreate())


def query(data: DataFrame) -> muntin.Query:
    over = muntin.over(data, W.session("10 minutes"), time="ts", watermark="15 minutes", by="k")
    return over.agg(n=A.count(), last=A.max("ts")).emit("on_change").late("update", within="2 hours")


def main(folder: Path, jars: Path) -> None:
    spark = session(folder, jars)
    spark.sparkContext.setLogLevel("ERROR")
    for place, kind in TARGETS:
        target = str(folder / place) if " " in place else place
        files, checkpoint = folder / f"in {place}", folder / f"checkpoint {place}"
        files.mkdir()
        for number, minutes in enumerate(MINUTES):
            times = [START + timedelta(minutes=minute) for minute in minutes for _ in range(2)]
            rows = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": ["a", None] * len(minutes)})
            pq.write_table(rows, files / str(number))
            data = spark.readStream.schema("ts timestamp, k string").parquet(str(files))
            writer = muntin.upsert(query(data).to_df(), target, format=kind)
            if number == 2:  # as after a kill between the write and its commit
                commits = checkpoint / "commits"
                last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
                for name in (str(last), f".{last}.crc"):
                    (commits / name).unlink(missing_ok=True)
            writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
        if kind == "iceberg-sql":  # the catalog of this session has another cache than that of the stream
            spark.catalog.refreshTable(target)
        table = spark.table(target) if "/" not in target else spark.read.format("delta").load(target)
        found = rows_of(table)
        assert found == rows_of(query(spark.read.parquet(str(files))).to_df()), found
        assert table.agg(F.max("revision")).collect()[0][0] > 1
        refused = query(data).agg(m=A.count()).to_df()
        with pytest.raises(muntin.MuntinError, match=r"target .*` has no column 'm'"):
            muntin.upsert(refused, target, format=kind)
        print(f"{kind} merged by Spark {spark.version}: {len(found)} sessions")


def rows_of(table: DataFrame) -> list[Any]:
    rows = table.select("window", "window_id", "k", "n", "last").collect()
    return sorted(map(tuple, rows), key=str)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
