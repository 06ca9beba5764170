from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.demo import compare, flights, run, worst

Row = tuple[int, str, int, float | None]
NEW_YEAR = datetime(2013, 1, 1, tzinfo=timezone.utc)


def test_the_stream_has_every_flight_once_and_is_out_of_order(tmp_path: Path) -> None:
    rows = flights.write_months(tmp_path, months=12)
    files = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in files] == [f"2013-{month:02}.parquet" for month in range(1, 13)]
    tables = [pq.read_table(path) for path in files]
    everything = pa.concat_tables(tables)
    assert everything.num_rows == rows == flights.load().num_rows
    order = [(name, "ascending") for name in everything.column_names]
    assert everything.sort_by(order).equals(flights.load().sort_by(order))
    departures = np.asarray(tables[0]["departure"].cast(pa.int64()))
    assert (np.diff(departures) < 0).any()


def results(rows: list[Row]) -> pa.Table:
    """Results of one-day windows: the day, the airport, the flights and their mean delay."""
    windows = [{"start": NEW_YEAR + timedelta(days=day), "end": NEW_YEAR + timedelta(days=day + 1)} for day, *_ in rows]
    time = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "window": pa.array(windows, pa.struct([("start", time), ("end", time)])),
            "origin": [row[1] for row in rows],
            "flights": [row[2] for row in rows],
            "mean_delay": pa.array([row[3] for row in rows], pa.float64()),
            "worst_delay": pa.array([90 for _ in rows], pa.int16()),
            "cancelled": [0 for _ in rows],
        }
    )


def test_answers_agree_whatever_their_order() -> None:
    one = results([(0, "EWR", 60, 1.5), (0, "JFK", 70, None), (1, "EWR", 80, 0.1 + 0.2)])
    other = results([(1, "EWR", 80, 0.3), (0, "JFK", 70, None), (0, "EWR", 60, 1.5)])
    assert compare.compare(compare.in_order(one), compare.in_order(other)).agrees


@pytest.mark.parametrize(
    "other",
    [
        [(0, "EWR", 61, 1.5), (0, "JFK", 70, None)],
        [(0, "EWR", 60, 1.5000001), (0, "JFK", 70, None)],
        [(0, "EWR", 60, 1.5), (0, "JFK", 70, 0.0)],
        [(0, "EWR", 60, 1.5), (0, "LGA", 70, None)],
        [(0, "EWR", 60, 1.5)],
    ],
)
def test_a_difference_is_seen(other: list[Row]) -> None:
    one = results([(0, "EWR", 60, 1.5), (0, "JFK", 70, None)])
    assert not compare.compare(compare.in_order(one), compare.in_order(results(other))).agrees


def test_the_worst_days_do_not_overlap_and_have_departures() -> None:
    delays: list[Row] = [(0, "EWR", 60, 10.0), (1, "EWR", 60, 50.0), (2, "EWR", 60, 30.0), (3, "EWR", 4, 500.0)]
    days = compare.in_order(results(delays))
    half_a_day_on = days.set_column(
        0, "window_start", pa.array([each + timedelta(hours=12) for each in days["window_start"].to_pylist()])
    )
    both = pa.concat_tables([days, half_a_day_on.cast(days.schema)])
    found = worst.worst_days(both, days, each=2)
    assert [(day.start - NEW_YEAR, day.mean_delay) for day in found] == [
        (timedelta(days=1), 50.0),
        (timedelta(days=2), 30.0),
    ]


def test_a_failure_shows_the_end_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(directory: Path, months: int) -> int:
        os.write(2, b"what Spark said\n")
        raise RuntimeError("no disk")

    monkeypatch.setattr(flights, "write_months", fail)
    with pytest.raises(RuntimeError, match="no disk"):
        run(tmp_path)
    assert "what Spark said" in capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_agrees_with_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, months=1) == 0
    assert "results are equal" in capsys.readouterr().out
    assert (tmp_path / "flights.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "spark.log").exists()
