"""Notes on the load with any content: what is no note of ours is as if it were not there."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muntin.features.shedding import load
from muntin.features.shedding.load import HostLoad
from muntin.features.shedding.notes import done_tasks, durations, how_long, started_batch
from muntin.spark.host import private
from muntin.spark.host.folder import HostFolder

QUERY = "0123456789abcdef" * 2
TARGET = 2.0
DEEP = b"[" * 100_000
STRANGE = [
    b"",
    b"[1]",
    b"{}",
    b'"x"',
    b"1",
    b"null",
    b"[]",
    b"[[]]",
    b"[NaN]",
    b"[Infinity, NaN, true]",
    b"[1e999, 0.5, true]",
    b"[1" + b"0" * 400 + b", 0.5, true]",
    b"[1" + b"0" * 5000 + b", 0.5, true]",
    b"[1, 2, true]",
    b"[1, -0.5, true]",
    b"[1, 0.5, 1]",
    b'["1", "0.5", "true"]',
    b"[1, 0.5, true]\n[1, 0.5, true]",
    b"[1, null, -1]",
    b"[1, null, 1.5]",
    b"[1, null, true]",
    b"[1, [1], 1]",
    b"[-1]",
    b"[[1, 1]]",
    b"\xff\xfe\x00",
    b"\x00" * 100,
    b'"\\ud800"',
    DEEP,
    DEEP[:500] + b"]" * 500,
    b" " * (2 << 20),
]


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"muntin-{os.geteuid()}" / QUERY / "load"
    folder.mkdir(parents=True, mode=0o700)
    return folder


def use_all(told: bytes) -> float:
    host = HostLoad(QUERY, 3, HostFolder())
    host.hear([told, json.dumps(["another host", [[2, 1.0]]]).encode()])
    host.report()
    rate = host.rate(TARGET)
    host.done(1_000_000, 10)
    host.done()
    return rate


@pytest.mark.parametrize("content", STRANGE, ids=range(len(STRANGE)))
def test_strange_notes_shed_nothing(notes: Path, content: bytes) -> None:
    for kind in ("start", "done", "heard"):
        for batch in (0, 1, 2):
            (notes / f"{kind}-{batch}").write_bytes(content)
    assert use_all(content) == 0
    assert started_batch((notes / "start-3").read_bytes()) is not None
    (notes / "start-3").write_bytes(content)
    assert use_all(content) == 0
    (notes / "done-3").write_bytes(content + b"\n")
    HostLoad(QUERY, 3, HostFolder()).done(None, 7)
    if len(content) < 1000:
        assert [task.rows for task in done_tasks((notes / "done-3").read_bytes())][-1:] == [7], "the good lines count"


def test_a_long_batch_is_known_beside_strange_notes(notes: Path) -> None:
    (notes / "start-2").write_bytes(b"[1000.0, 0.0, false]")
    (notes / "done-2").write_bytes(b"[1]\n[1020.0, null, 500]\nhalf a li")
    assert HostLoad(QUERY, 3, HostFolder()).rate(TARGET) > 0.5


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_content_of_a_note_fails_a_batch(notes: Path, data: st.DataObject) -> None:
    numbers = st.one_of(st.integers(-3, 10**30), st.floats(), st.floats(0, 1), st.booleans(), st.none())
    values = st.recursive(
        st.one_of(numbers, st.text(max_size=3)), lambda each: st.lists(each, max_size=4), max_leaves=8
    )
    like_ours = st.one_of(
        st.tuples(st.floats(0, 1e6), st.floats(0, 1), st.booleans()),
        st.tuples(st.floats(0, 1e6), st.one_of(st.none(), st.floats(-1e13, 1e13)), st.integers(0, 1 << 62)),
        st.tuples(st.floats(0, 1e13)),
    )
    lines = st.lists(st.one_of(like_ours, values).map(json.dumps), max_size=4).map(
        lambda each: "\n".join(each).encode()
    )
    content = st.one_of(st.binary(max_size=200), lines)
    for name in [f"{kind}-{batch}" for kind in ("start", "done", "heard") for batch in range(4)]:
        (notes / name).write_bytes(data.draw(content))
    assert 0 <= use_all(data.draw(content)) < 1


@given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_any_bytes_can_be_read_as_notes(content: bytes) -> None:
    started_batch(content)
    done_tasks(content)
    durations(content)
    how_long(content)


def test_what_other_hosts_tell_goes_to_no_other_file(notes: Path) -> None:
    told: list[list[object]] = [["x", [[number, 5.0]]] for number in (-1, 3, 10**9, True, 1.0, "0", "../../x", None)]
    told += [["x", [[2, seconds]]] for seconds in (-1, float("nan"), float("inf"), "5", None, 10**400)]
    told += [["x", [[2, 5.0, 1]]], ["x", {"2": 5.0}], [1, [[2, 5.0]]], [["x"], [[2, 5.0]]]]
    HostLoad(QUERY, 3, HostFolder()).hear(json.dumps(each).encode() for each in told)
    assert list(notes.iterdir()) == []
    HostLoad(QUERY, 3, HostFolder()).hear(
        json.dumps(each).encode() for each in [*told, ["x", [["y", 1], [1, 4.0], [2, 6.0]]]]
    )
    assert {each.name: each.read_text() for each in notes.iterdir()} == {"heard-1": "[4.0]\n", "heard-2": "[6.0]\n"}


def test_notes_of_long_ago_are_removed_even_if_batches_ran_elsewhere(notes: Path) -> None:
    for batch in range(30):
        for kind in ("start", "done", "heard"):
            (notes / f"{kind}-{batch}").write_text("[1]")
    for name in ("holder", f"7-{'0' * 32}", "thesis"):
        (notes / name).write_text("no note")
    HostLoad(QUERY, 40, HostFolder()).rate(TARGET)
    kept = {
        int(each.name.split("-")[1])
        for each in notes.iterdir()
        if private.FILE.fullmatch(each.name) and each.name.startswith(("start", "done", "heard"))
    }
    assert kept == {*range(40 - 2 * load.LOOK_BACK + 1, 30), 40}
    assert all((notes / name).exists() for name in ("holder", f"7-{'0' * 32}", "thesis"))
