"""A stream of sessions into a table of SQLite, from files of a folder, to their end: killed by its test."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import muntin
from muntin import aggregates as A
from muntin import windows as W

SCHEMA = "ts timestamp, k string, v long"


def changing(data: Any) -> muntin.Query:
    over = muntin.over(data, W.session("4 minutes"), time="ts", watermark="10 minutes", by="k")
    return over.agg(n=A.count(), total=A.sum("v")).emit("on_change").late("update", within="1 day")


def main(folder: Path) -> None:
    spark = muntin.session("upserts")
    spark.sparkContext.setLogLevel("OFF")
    data = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    results = changing(data).to_df().drop("window_time")
    writer = muntin.upsert(results, "sessions", format="dbapi", connect=lambda: sqlite3.connect(folder / "t.db"))
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
