"""What goes and what stays: folders of streams that are alive, that have ended, and what killed workers left."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from muntin.spark.host.folder import HostFolder, QueryFolder, note_stream
from muntin.spark.host.sweep import Streams

SEGMENT = f"7-{'0' * 32}"
DAY = 86_400


def write(query: str, host: HostFolder | None = None) -> None:
    QueryFolder(host or HostFolder(), query, "0").write(SEGMENT, b"bytes")


def aged(place: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(place, (then, then))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("muntin.spark.host.sweep.time.monotonic", lambda: now[0])
    return now


def test_what_nobody_has_touched_for_a_day_is_swept(base: Path, clock: list[float]) -> None:
    old, recent, new = (uuid.uuid4().hex for _ in range(3))
    for query in (old, recent):
        write(query)
    aged(base / old, DAY + 10)
    aged(base / recent, DAY - 10)
    write(new)
    assert {each.name for each in base.iterdir()} == {recent, new}


@pytest.mark.parametrize("use", ["read", "write", "append", "delete", "names"])
def test_a_live_query_is_not_swept(base: Path, clock: list[float], use: str) -> None:
    """Whatever it does, though it makes no new folders for days."""
    live, new = uuid.uuid4().hex, uuid.uuid4().hex
    write(live)
    aged(base / live, 3 * DAY)
    clock[0] += 61
    folder = QueryFolder(HostFolder(), live, "0")
    uses: dict[str, Callable[[], object]] = {
        "read": lambda: folder.read(SEGMENT, 5),
        "write": lambda: folder.write(SEGMENT, b"bytes"),
        "append": lambda: folder.append("done-0", b"\n"),
        "delete": lambda: folder.delete("done-0"),
        "names": folder.names,
    }
    uses[use]()
    write(new)
    assert folder.read(SEGMENT, 5) == b"bytes"


def test_it_is_touched_once_a_minute(base: Path, clock: list[float]) -> None:
    query = uuid.uuid4().hex
    write(query)
    aged(base / query, 1000)
    clock[0] += 59
    write(query)
    assert time.time() - (base / query).stat().st_mtime > 900
    clock[0] += 2
    write(query)
    assert time.time() - (base / query).stat().st_mtime < 100


def test_unfinished_files_are_removed_when_nobody_can_be_writing_them(base: Path, clock: list[float]) -> None:
    query = uuid.uuid4().hex
    write(query)
    shard, load = base / query / "0", base / query / "load"
    load.mkdir(mode=0o700)
    killed = [shard / f"{SEGMENT}.{uuid.uuid4().hex}", load / f"start-0.{uuid.uuid4().hex}"]
    others = [shard / f"{SEGMENT}.mine", shard / f"holder.{uuid.uuid4().hex}", load / "start-0"]
    for each in (*killed, *others):
        each.write_bytes(b"half")
    for each in (*killed, others[0], others[2]):
        aged(each, 700)
    clock[0] += 61
    write(query)
    assert not any(each.exists() for each in killed)
    assert all(each.exists() for each in others)


def test_what_ended_streams_of_the_session_left_goes_with_the_next_one(base: Path, clock: list[float]) -> None:
    owner, stranger = uuid.uuid4().hex, uuid.uuid4().hex
    first = HostFolder(streams=Streams(owner, frozenset(), time.time() - 100))
    ended, running, both, elsewhere, unknown, later, new = (uuid.uuid4().hex for _ in range(7))
    streams = {query: str(uuid.uuid4()) for query in (ended, running, both, elsewhere, later)}
    for query in (ended, running, both, unknown):
        write(query, first)
    for query in (ended, running, both):
        note_stream(first, query, streams[query])
    note_stream(first, both, streams[running])
    write(elsewhere)
    note_stream(HostFolder(streams=Streams(stranger, frozenset(), 0)), elsewhere, streams[elsewhere])
    for query in (ended, running, both, elsewhere, unknown):
        aged(base / query, 50)
    now = HostFolder(streams=Streams(owner, frozenset({streams[running]}), time.time() - 10))
    write(later, first)  # of a stream that was started after the new query was made
    note_stream(first, later, streams[later])
    write(new, now)
    assert {each.name for each in base.iterdir()} == {running, both, elsewhere, unknown, later, new}
