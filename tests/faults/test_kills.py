"""A few kills with every test run. `make faults` has many more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults import harness, processes
from tests.faults.batches import batches, take_back_unplanned
from tests.faults.comparison import difference
from tests.faults.scenarios import SCENARIOS, Victim

needs_proc = pytest.mark.skipif(not processes.CAN_SEE, reason="there is no /proc to find processes")


@needs_proc
@pytest.mark.spark
@pytest.mark.slow
def test_kills_change_nothing(tmp_path: Path) -> None:
    """A query with many options, and one kill per kind of victim."""
    victims: list[Victim] = ["worker", "driver", "daemon", "jvm"]
    seed = int.from_bytes(os.urandom(2), "big")
    verdict = harness.run("rich", seed, tmp_path, harness.planned("rich", seed, victims))
    assert verdict.problem is None, f"seed {seed}: {verdict.problem}"
    assert [kill.victim for kill in verdict.kills] == victims
    assert verdict.starts >= 3
    assert verdict.rows > 500


def test_every_scenario_has_all_its_kills_before_the_end() -> None:
    for name, scenario in SCENARIOS.items():
        for seed in range(20):
            victims = harness.chosen_victims(name, seed, 3)
            kills = harness.planned(name, seed, victims)
            assert [kill.victim for kill in kills] == victims
            assert [kill.after for kill in kills] == sorted(kill.after for kill in kills)
            assert all(1 <= kill.after < scenario.files - 2 for kill in kills)
            assert kills == harness.planned(name, seed, victims)


ROWS: list[dict[str, Any]] = [
    {"k": "a", "total": 1.5, "quality": {"size": 3, "error": 0.1}},
    {"k": "a", "total": 1.5, "quality": {"size": 3, "error": 0.1}},
    {"k": None, "total": float("nan"), "quality": {"size": 1, "error": None}},
]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (ROWS[::-1], None),
        (ROWS[1:], "1 of 3 rows are missing and 0 are too many"),
        ([*ROWS, ROWS[0]], "0 of 3 rows are missing and 1 are too many"),
        ([ROWS[0], {**ROWS[1], "total": 1.5000000000000002}, ROWS[2]], "1 of 3 rows are missing and 1 are too many"),
    ],
)
def test_a_row_more_or_less_is_seen(tmp_path: Path, changed: list[dict[str, Any]], said: str | None) -> None:
    disturbed, undisturbed = _written(tmp_path / "one", changed), _written(tmp_path / "other", ROWS)
    count, problem = difference(disturbed, undisturbed)
    assert count == 3
    assert problem is None if said is None else problem is not None and problem.startswith(said)


@pytest.mark.parametrize(
    ("total", "problem"), [(1.5000000000000002, False), (1.5001, True), (None, True), (float("nan"), True)]
)
def test_estimates_may_differ_by_rounding(tmp_path: Path, total: float | None, problem: bool) -> None:
    changed = [ROWS[2], {**ROWS[1], "total": total}, ROWS[0]]
    disturbed, undisturbed = _written(tmp_path / "one", changed), _written(tmp_path / "other", ROWS)
    assert difference(disturbed, undisturbed)[1] is not None
    assert (difference(disturbed, undisturbed, rounded=True)[1] is not None) == problem
    assert difference(_written(tmp_path / "fewer", ROWS[1:]), undisturbed, rounded=True)[1] is not None
    assert difference(_written(tmp_path / "more", [*ROWS, ROWS[0]]), undisturbed, rounded=True)[1] is not None


def test_columns_that_the_clock_decides_on_are_left_out(tmp_path: Path) -> None:
    changed = [{**ROWS[0], "quality": {"size": 3, "error": 0.7}}, *ROWS[1:]]
    disturbed, undisturbed = _written(tmp_path / "one", changed), _written(tmp_path / "other", ROWS)
    assert difference(disturbed, undisturbed)[1] is not None
    assert difference(disturbed, undisturbed, only=("k", "total", "quality.size"))[1] is None


def test_a_file_that_is_in_no_batch_yet_is_taken_back(tmp_path: Path) -> None:
    for name in ("offsets/0", "offsets/1"):
        _note(tmp_path / name, 'v1\n{"batchWatermarkMs":5}\n{"logOffset":8}')
    for name in ("sources/0/7", "sources/0/8", "sources/0/9.compact", "sources/0/.9.compact.crc"):
        _note(tmp_path / name, "v1")
    take_back_unplanned(tmp_path)
    assert sorted(path.name for path in (tmp_path / "sources" / "0").iterdir()) == ["7", "8"]
    assert batches(tmp_path) == [[5, {"logOffset": 8}]] * 2


def _note(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _written(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    return folder


@pytest.fixture
def leader() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a session, and its child in another process group."""
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'], process_group=0)"
    if sys.version_info < (3, 11):
        code = code.replace("process_group=0", "preexec_fn=__import__('os').setpgrp")
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True)
    yield process
    process.kill()
    process.communicate()


@needs_proc
def test_only_the_processes_of_a_session_are_found(leader: subprocess.Popen[bytes]) -> None:
    while len(members := processes.of_sessions({leader.pid})) < 2:
        assert leader.poll() is None
    assert {member.session for member in members} == {leader.pid}
    assert os.getpid() not in {member.pid for member in members}
    # There is no worker in the session, and other sessions are left alone.
    assert not processes.kill("worker", leader.pid, None, Random(0))
    processes.end_session(leader.pid)
    assert leader.wait(timeout=30) == -signal.SIGKILL
    until = time.monotonic() + 30
    while processes.of_sessions({leader.pid}):  # the kills take a moment
        assert time.monotonic() < until
