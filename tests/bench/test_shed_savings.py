"""The benchmark of what shedding saves: every way is a query that can be built, and times are relative to none."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from muntin.bench.shed_savings import COLUMNS, NONE, PANES, RATES, ROWS, WAYS, cases, draw, made, query, records
from muntin.bench.steady import write_tables


def test_every_way_is_a_query_over_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.parquet(str(write_tables(tmp_path / "rows", [made(100)])))
    assert len(frame.columns) == 2 + len(COLUMNS)
    assert len(cases()) == len(set(cases())) == 2 * (1 + len(WAYS) * len(RATES))
    for case in cases():
        results = query(frame, case).to_df()
        assert ("quality" in results.columns) == (case[1] != NONE)
        assert ("middle" in results.columns) == (case[0] == ROWS)


def test_times_are_relative_to_no_shedding(tmp_path: Path) -> None:
    times = {case: (2.0 if case[1] == NONE else 1.0) * (2 if case[0] == ROWS else 1) for case in cases()}
    found = {record.name: record for record in records(1000, times)}
    assert found[f"{PANES}: {NONE}"].ratio == 1
    assert found[f'{ROWS}: at="source" at 98%'].ratio == 0.5
    assert found[f"{PANES}: default at 90%"].rows_per_s == 1000
    draw(times, tmp_path / "savings.png")
    assert (tmp_path / "savings.png").stat().st_size > 10_000
