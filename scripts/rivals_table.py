"""Writes the README's table of rates beside other systems.

Nexmark and the Yahoo streaming benchmark come from docs/results, the JSON that their commands wrote; the rates of
tables and of the sliding sum from the figures that docs/tables.md and docs/scan.md record.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parent.parent
DOCS, PAGE = ROOT / "docs", ROOT / "README.md"
BEGIN, END = "<!-- rivals -->\n", "<!-- /rivals -->"
COLUMNS = ("`muntin.scan`", "Muntin, DataFrame", "Spark", "Flink SQL", "Polars", "DuckDB")
SCAN, FRAME, SPARK, FLINK, POLARS, DUCKDB = COLUMNS
TABLES = {
    "Muntin, `muntin.scan`": SCAN,
    "Muntin, DataFrame": FRAME,
    "Spark, tiles by hand": SPARK,
    "Polars": POLARS,
    "DuckDB": DUCKDB,
}
"""The systems of the tables benchmark, and their columns."""
Row: TypeAlias = tuple[str, str, dict[str, float]]
"""What is computed, the page about it, and the rates by column."""


def table() -> str:
    found = list(rows())
    columns = [column for column in COLUMNS if any(column in rates for _, _, rates in found)]
    lines = [f"| million rows/s | {' | '.join(columns)} |", "| --- " * (1 + len(columns)) + "|"]
    for name, page, rates in found:
        fastest = max(rates.values())
        cells = [_cell(rates.get(column), fastest) for column in columns]
        lines.append(f"| [{name}](docs/{page}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(rate: float | None, fastest: float) -> str:
    if rate is None:
        return ""
    shown = f"{rate / 1e6:.3g}"
    return f"**{shown}**" if rate == fastest else shown


def rows() -> Iterator[Row]:
    yield from nexmark(_read("nexmark"), _read("nexmark-flink"))
    yield from ysb(_read("ysb"))
    yield from slide((DOCS / "scan.md").read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8"))
    yield from tables((DOCS / "tables.md").read_text(encoding="utf-8"))


def _read(name: str) -> list[dict[str, Any]]:
    path = DOCS / "results" / f"{name}.json"
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def nexmark(records: list[dict[str, Any]], flinks: list[dict[str, Any]]) -> Iterator[Row]:
    """Muntin and Spark are of one run, and Flink is of another, of the same size."""
    by_query: dict[str, dict[str, float]] = {}
    for record in records:
        query, separator, system = record["name"].rpartition(": Muntin, ")
        if separator:
            rates = by_query.setdefault(query, {})
            rates[SCAN if system == "muntin.scan" else FRAME] = record["rows_per_s"]
            if record["baseline_name"]:
                rates[record["baseline_name"]] = record["baseline"]
    for record in flinks:
        query = record["name"].rpartition(": Muntin, ")[0]
        if query:
            by_query[query][FLINK] = record["baseline"]
    for query, rates in by_query.items():
        yield f"Nexmark {query}", "benchmarks.md#nexmark", rates


def ysb(records: list[dict[str, Any]]) -> Iterator[Row]:
    for record in records:
        window, separator, _ = record["name"].rpartition(": Muntin against Spark")
        if separator:
            rates = {FRAME: record["rows_per_s"], SPARK: record["baseline"]}
            yield f"Yahoo, {window}", "benchmarks.md#the-yahoo-streaming-benchmark", rates


def slide(page: str, readme: str) -> Iterator[Row]:
    """Of streams: what docs/scan.md records of Muntin, and the README of Spark."""
    for ratio, scan, frame in re.findall(r"^\| (\d+) \| ([\d,]+) \(.*\) \| ([\d,]+) \|$", page, re.MULTILINE):
        rates = {SCAN: _number(scan), FRAME: _number(frame)}
        spark = re.search(rf"^\| {ratio} \| [\d,]+ \| ([\d,]+) \|", readme, re.MULTILINE)
        if spark:
            rates[SPARK] = _number(spark[1])
        yield f"stream, sliding sum and mean, size/slide {ratio}", "scan.md#benchmarks", rates


def tables(page: str) -> Iterator[Row]:
    heading = re.search(r"^\| (\d+) million rows \| seconds", page, re.MULTILINE)
    rates = {}
    for system, seconds in re.findall(r"^\| \**([^|*]+?)\** \| \**([\d.]+)\** \|", page, re.MULTILINE):
        if heading and system in TABLES:
            rates[TABLES[system]] = int(heading[1]) * 1e6 / float(seconds)
    if rates:
        yield "table, sliding sum, 60 s by 1 s", "tables.md#benchmarks", rates


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def main(arguments: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    written = before + BEGIN + table() + END + rest.split(END)[1]
    if "--check" in arguments:
        if page != written:
            print("README.md has another table than the results: run scripts/rivals_table.py", file=sys.stderr)
        return int(page != written)
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
