"""The part of `flink` that runs where apache-flink is installed, and Muntin is not: a task in, seconds out, as JSON."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

SETTINGS = {
    "parallelism.default": "2",
    "rest.address": "localhost",
    "rest.bind-address": "localhost",
    "jobmanager.bind-host": "localhost",
    "taskmanager.bind-host": "localhost",
    "taskmanager.host": "localhost",
    "table.local-time-zone": "UTC",
}


def main(task: dict[str, Any]) -> dict[str, float]:
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        tables.get_config().set(name, value)
    if task["jars"]:
        tables.get_config().set("pipeline.jars", ";".join(Path(jar).as_uri() for jar in task["jars"]))
    for name, columns in task["columns"].items():
        folder = (Path(task["place"]) / name).as_uri()
        tables.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{folder}',"
            " 'format' = 'parquet', 'parquet.utc-timezone' = 'true')"
        )
    if task["total"]:
        return {name: _total(tables, name, query, task) for name, query in task["queries"].items()}
    queries = list(task["queries"].items())
    answer = {}
    for name, query in [*queries[-1:], *queries]:  # the first one warms up
        _sink(tables, name, query, "'connector' = 'blackhole'")
        begun = perf_counter()
        tables.execute_sql(f"INSERT INTO sink_{name} {query}").wait()
        answer[name] = perf_counter() - begun
    return answer


def _total(tables: Any, name: str, query: str, task: dict[str, Any]) -> float:
    """The sum of a column over all results, which are written as CSV."""
    folder = Path(task["place"]) / f"flink-{name}"
    columns = _sink(tables, name, query, f"'connector' = 'filesystem', 'path' = '{folder.as_uri()}', 'format' = 'csv'")
    tables.execute_sql(f"INSERT INTO sink_{name} {query}").wait()
    place = columns.index(task["total"])
    total = 0.0
    for path in folder.rglob("[!.]*"):
        if path.is_file():
            with path.open(encoding="utf-8", newline="") as file:
                total += sum(float(row[place]) for row in csv.reader(file))
    return total


def _sink(tables: Any, name: str, query: str, options: str) -> list[str]:
    """A table for the results of a query. Returns the names of its columns."""
    schema = tables.sql_query(query).get_schema()
    names: list[str] = schema.get_field_names()
    shape = ", ".join(
        f"`{field}` {_type(kind)}" for field, kind in zip(names, schema.get_field_data_types(), strict=True)
    )
    tables.execute_sql(f"DROP TABLE IF EXISTS sink_{name}")
    tables.execute_sql(f"CREATE TABLE sink_{name} ({shape}) WITH ({options})")
    return names


def _type(kind: Any) -> str:
    """A column's type in SQL, without what Flink adds to times that have a watermark."""
    return str(kind._j_data_type.getLogicalType().asSerializableString() if hasattr(kind, "_j_data_type") else kind)


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
