"""`MERGE` in Spark's SQL, for tables that support it: Delta and Iceberg."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.sinks.revisions import RETRACTED, REVISION, Revisions


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def table_name(parts: Sequence[str]) -> str:
    return ".".join(map(quoted, parts))


def merge_statement(target: str, source: str, rows: Revisions) -> str:
    """The statement that leaves the latest revision of each window and key in the target.

    `target` and `source` are SQL already. Running it again with the same source changes nothing.
    """

    def both(name: str, operator: str) -> str:
        return f"target.{quoted(name)} {operator} source.{quoted(name)}"

    same = " AND ".join(both(name, "<=>") for name in rows.identity)
    newer = f" AND source.{quoted(REVISION)} > target.{quoted(REVISION)}" if rows.counted else ""
    retracted = f"source.{quoted(RETRACTED)}"
    names = ", ".join(map(quoted, rows.columns))
    values = ", ".join(f"source.{quoted(name)}" for name in rows.columns)
    clauses = [f"MERGE INTO {target} AS target USING {source} AS source ON {same}"]
    if rows.retracts:
        clauses.append(f"WHEN MATCHED AND {retracted}{newer} THEN DELETE")
    if rows.others:
        changes = ", ".join(both(name, "=") for name in rows.others)
        clauses.append(f"WHEN MATCHED{newer} THEN UPDATE SET {changes}")
    exists = f" AND NOT {retracted}" if rows.retracts else ""
    clauses.append(f"WHEN NOT MATCHED{exists} THEN INSERT ({names}) VALUES ({values})")
    return "\n".join(clauses)
