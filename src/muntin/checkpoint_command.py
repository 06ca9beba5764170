"""`muntin checkpoint inspect PATH`: what a checkpoint is of, and how large it is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import timezone
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from muntin.engine.description import Description
from muntin.engine.inspected import described, totals
from muntin.errors import MuntinError
from muntin.sizes import describe_size
from muntin.spark.checkpoint import StoredState, checkpoint_path, local_folder
from muntin.spark.checkpoint_files import last_batch
from muntin.spark.session import session


def inspect(given: str) -> int:
    """Print the queries of a checkpoint on this machine, their state and their counts."""
    path = checkpoint_path(given)
    local = local_folder(path)
    if local is None:
        raise MuntinError(f"checkpoint {path!r} is not on this machine; read it with muntin.state(...) in a session.")
    console = Console()
    spark = SparkSession.getActiveSession()
    if spark is None:
        spark = session("muntin-checkpoint")
        spark.sparkContext.setLogLevel("OFF")
    for line in [path, *_stream(local)]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for operator in sorted(int(folder.name) for folder in (local / "state").iterdir() if folder.name.isdecimal()):
        _show(console, StoredState(spark, path, operator, None))
    return 0


def _stream(local: Path) -> list[str]:
    """What Spark's files say of the stream."""
    identity = json.loads((local / "metadata").read_text(encoding="utf-8")).get("id", "unknown")
    batch = last_batch(local)
    files = [path for path in local.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    last = "no batch has ended" if batch is None else f"last batch {batch:,}"
    return [f"stream {identity}, {last}", f"{describe_size(size)} in {len(files):,} files"]


def _show(console: Console, stored: StoredState) -> None:
    try:
        headers = [bytes(row["value"]) for row in stored.headers().collect()]
        counts = sum((Counter(totals(header)) for header in headers), Counter[str]())
        made_by = next(map(described, stored.descriptions()), None)
    except MuntinError as error:  # another stateful operator of Spark
        console.print(f"\noperator {stored.operator}: {error}", markup=False, highlight=False, soft_wrap=True)
        return
    since = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    lines = [f"\noperator {stored.operator}: {len(headers):,} shards", *(f"  {line}" for line in _query(made_by))]
    for line in [*lines, f"  since the start: {since}"]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    table = Table("part", "values", "bytes", "panes", "rows", "watermark", box=None)
    sums = [F.sum(name).alias(name) for name in ("bytes", "panes", "rows")]
    parts = (
        stored.parts().groupBy("part").agg(F.count("*").alias("values"), *sums, F.max("watermark").alias("watermark"))
    )
    for row in parts.orderBy("part").toArrow().to_pylist():
        numbers = ("" if row[name] is None else f"{row[name]:,}" for name in ("values", "bytes", "panes", "rows"))
        watermark = "none yet" if row["watermark"] is None else str(row["watermark"].astimezone(timezone.utc))
        table.add_row(row["part"], *numbers, watermark)
    console.print(table, soft_wrap=True)


def _query(made_by: Description | None) -> list[str]:
    """What the query was, as its description in the state says."""
    if made_by is None:
        return ["made by an early version, which wrote no description of the query"]
    windows = [_call(window) for window in made_by["windows"]]
    aggregates = [f"{each['name']}={each['written']}" for each in made_by["aggregates"]]
    keys = ", ".join(made_by["keys"]) or "none"
    lines = [f"windows: {', '.join(windows)}", f"time: {made_by['time']}, keys: {keys}"]
    if aggregates:
        lines.append(f"aggregates: {', '.join(aggregates)}")
    options = [each["written"] for each in made_by.values() if isinstance(each, dict) and "written" in each]
    return [*lines, f"options: {' '.join(options)}"] if options else lines


def _call(window: Mapping[str, Any]) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in window["arguments"].items())
    return f"W.{window['function']}({arguments})"
