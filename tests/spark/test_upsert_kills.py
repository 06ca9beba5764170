"""A stream that is killed at any point, again and again, leaves the table right."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from muntin.testing import Stream
from muntin.testing.schemas import schema_of, table_of
from tests.spark.upsert_script import SCHEMA, changing

SCRIPT = Path(__file__).parent / "upsert_script.py"
BATCHES, KILLS = 8, 3
START = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


@pytest.mark.slow
@pytest.mark.extended
def test_the_table_is_right_after_kills(here: Path) -> None:
    chance = random.Random(7)
    batches = [
        [
            (
                START + timedelta(minutes=4 * number - chance.choice([0, 1, 9, 30])),
                chance.choice(["a", "b", None]),
                number,
            )
            for _ in range(12)
        ]
        for number in range(BATCHES)
    ]
    (here / "in").mkdir()
    for number, rows in enumerate(batches):
        path = here / "in" / f"{number:02d}.parquet"
        pq.write_table(table_of(rows, schema_of(SCHEMA)), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    killed = 0
    for turn in range(1, KILLS + 1):
        process = _start(here)
        # Some batches further, and at a random point of the next one.
        until = time.monotonic() + 240
        while process.poll() is None and _committed(here) < turn * 3 - 1 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(chance.random())
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed >= 2, "the stream ended before it could be killed"
    last = _start(here)
    try:
        assert last.wait(timeout=300) == 0
    finally:
        if last.poll() is None:
            os.killpg(last.pid, signal.SIGKILL)

    stream = Stream(changing, SCHEMA)
    stream.batch([row for rows in batches for row in rows])
    expected = {}
    for row in stream.results:
        expected[row["window_id"], row["k"]] = None if row["retracted"] else (row["n"], row["total"])
    with closing(sqlite3.connect(here / "t.db")) as connection:
        found = connection.execute("SELECT window_id, k, n, total FROM sessions").fetchall()
    assert len(found) == len({row[:2] for row in found})
    assert {row[:2]: row[2:] for row in found} == {place: row for place, row in expected.items() if row is not None}


def _start(here: Path) -> subprocess.Popen[bytes]:
    """In a group of its own: Spark's JVM and its workers are killed with it."""
    path = os.pathsep.join(path for path in sys.path if path)
    with (here / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(here)],
            stdout=log,
            stderr=log,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,
        )


def _committed(here: Path) -> int:
    """How many batches are committed."""
    folder = here / "checkpoint" / "commits"
    return sum(entry.name.isdecimal() for entry in folder.iterdir()) if folder.is_dir() else 0
