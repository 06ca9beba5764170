"""The part of `flink` that runs where apache-flink is installed, and Muntin is not: a task in, seconds out, as JSON."""

from __future__ import annotations

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
FEWER_UPDATES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "5 s",
    "table.exec.mini-batch.size": "1000000",
}
"""For a value over all results, of which Flink otherwise sends every step."""


def main(task: dict[str, Any]) -> dict[str, float]:
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {**SETTINGS, **FEWER_UPDATES} if task["count"] else SETTINGS
    for name, value in settings.items():
        tables.get_config().set(name, value)
    if task["jars"]:
        tables.get_config().set("pipeline.jars", ";".join(Path(jar).as_uri() for jar in task["jars"]))
    for name, columns in task["columns"].items():
        folder = (Path(task["place"]) / name).as_uri()
        tables.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{folder}',"
            " 'format' = 'parquet', 'parquet.utc-timezone' = 'true')"
        )
    answer = {}
    queries = list(task["queries"].items())
    warm_up = [] if task["count"] else queries[-1:]
    for name, query in [*warm_up, *queries]:
        begun = perf_counter()
        if task["count"]:
            answer[name] = _counted(tables, f"SELECT {task['count']} FROM ({query})")
            continue
        tables.execute_sql(f"DROP TABLE IF EXISTS sink_{name}")
        columns = tables.sql_query(query).get_schema()
        fields = zip(columns.get_field_names(), columns.get_field_data_types(), strict=True)
        shape = ", ".join(f"`{field}` {_type(kind)}" for field, kind in fields)
        tables.execute_sql(f"CREATE TABLE sink_{name} ({shape}) WITH ('connector' = 'blackhole')")
        begun = perf_counter()
        tables.execute_sql(f"INSERT INTO sink_{name} {query}").wait()
        answer[name] = perf_counter() - begun
    return answer


def _type(kind: Any) -> str:
    """A column's type in SQL, without what Flink adds to times that have a watermark."""
    return str(kind._j_data_type.getLogicalType().asSerializableString() if hasattr(kind, "_j_data_type") else kind)


def _counted(tables: Any, query: str) -> float:
    last = 0.0
    with tables.execute_sql(query).collect() as rows:
        for row in rows:  # updates: the last one counts
            last = float(row[0])
    return last


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
