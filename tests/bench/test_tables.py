"""The tables benchmark: all systems give the same answers, and its verdicts are right."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.bench import tables
from muntin.bench import tables_systems as systems
from muntin.bench.tables_data import FIRST, KEYS, Scale, write
from muntin.bench.tables_plot import draw


def test_others_answer_every_window_with_a_row(tmp_path: Path) -> None:
    scale = Scale(rows=40_000, rounds=1)
    folder = tmp_path / "table"
    write(folder, scale)
    table = pq.read_table(folder)
    rows = zip(
        table["key"].to_pylist(), table["ts"].cast(pa.int64()).to_pylist(), table["value"].to_pylist(), strict=True
    )
    expected: dict[tuple[int, int], float] = {}
    for key, micros, value in rows:
        for start in range(micros // systems.SECOND - systems.PANES + 1, micros // systems.SECOND + 1):
            expected[key, start] = expected.get((key, start), 0.0) + value
    keys, starts = zip(*expected, strict=True)
    naive = systems._columns(pa.table({"key": keys, "start": starts, "total": list(expected.values())}))
    for answers in (systems._polars(str(folder)).to_arrow(), systems._duckdb(str(folder))):
        assert systems.differences(naive, systems._columns(answers)) == 0
    assert systems.differences(naive, naive.slice(3)) == 3
    panes = systems._arrow(folder, KEYS, scale.seconds, FIRST)
    assert panes.sum() == pytest.approx(sum(table["value"].to_pylist()))


def test_verdicts(tmp_path: Path) -> None:
    seconds = {name: [1.0, 9.0, 2.0] for name in (systems.SCAN, systems.FRAME, systems.GROUPED, systems.ARROW)}
    seconds |= {systems.POLARS: [1.0], systems.DUCKDB: [3.0]}
    found = tables.records(tables.FULL.rows, seconds, {systems.SCAN: 0, systems.POLARS: 0, systems.DUCKDB: 2})
    verdicts = {record.name: record.meets for record in found if record.target is not None}
    assert verdicts == {
        f"{systems.SCAN}: time against {systems.POLARS}": False,
        f"{systems.SCAN}: time against {systems.DUCKDB}": True,
        f"{systems.FRAME}: time against {systems.GROUPED}": True,
        f"{systems.POLARS}: results that differ from Muntin's": True,
        f"{systems.DUCKDB}: results that differ from Muntin's": False,
    }
    quick = tables.records(tables.QUICK.rows, seconds, {})
    assert [record.target for record in quick] == [None] * len(quick)
    draw({name: of_system[0] for name, of_system in seconds.items()}, 1_000, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 0


@pytest.mark.extended
def test_a_quick_run_on_spark(tmp_path: Path) -> None:
    tables.run(tmp_path, quick=True)
    records = json.loads((tmp_path / "tables.json").read_text())
    differing = [record for record in records if "differ" in record["name"]]
    assert [record["ratio"] for record in differing] == [0.0] * 4
