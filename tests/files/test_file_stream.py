"""Streams of files: every file is in one batch, batches are the same after a restart, and a backlog is listed once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import fs

from muntin import MuntinError
from muntin.files import file_log
from muntin.files.file_log import FileLog
from muntin.files.file_set import File, FileSet
from muntin.files.file_stream import FileStream, Limits, Position
from muntin.files.parquet import Parquet
from muntin.files.reading import Wanted, read

LOCAL = fs.LocalFileSystem()
SCHEMA = pa.schema([("n", pa.int64())])


class Stream:
    """A stream of the files in a folder, with offsets that go through JSON, as Spark's checkpoint has them."""

    def __init__(self, place: Path, rows: int | None = None, files: int | None = None) -> None:
        self.folder = place / "in"
        self.folder.mkdir(exist_ok=True)
        self._set = FileSet((str(self.folder),), (str(self.folder),), LOCAL, Parquet(), SCHEMA)
        self._limits = Limits(rows, files)
        self._log = str(place / "log")
        self.offset = json.dumps(Position().offset)
        self.restart()

    def restart(self) -> None:
        self.stream = FileStream(self._set, self._limits, LOCAL, self._log)

    def add(self, name: str, *rows: int, modified: int = 0, group: int = 1_000) -> None:
        pq.write_table(pa.table({"n": pa.array(rows, pa.int64())}), self.folder / name, row_group_size=group)
        os.utime(self.folder / name, (modified, modified))

    def batch(self, limited: bool = True) -> list[int]:
        """The rows of the next batch."""
        before, self.offset = self.offset, self.planned(limited)
        return self.rows(before, self.offset)

    def planned(self, limited: bool = True) -> str:
        return json.dumps(self.stream.after(Position.of(json.loads(self.offset)), limited).offset)

    def rows(self, start: str, end: str) -> list[int]:
        shares = self.stream.shares(Position.of(json.loads(start)), Position.of(json.loads(end)), 3)
        return [
            row
            for share in shares
            for part in read(self._set, share, Wanted(["n"]))
            for row in part.column("n").to_pylist()
        ]

    def batches(self) -> Iterator[list[int]]:
        while rows := self.batch():
            yield rows


def test_files_come_by_their_age(tmp_path: Path) -> None:
    stream = Stream(tmp_path, files=2)
    assert stream.batch() == []
    stream.add("a", 1, modified=3)
    stream.add("b", 2, modified=1)
    stream.add("c", 3, modified=2)
    assert list(stream.batches()) == [[2, 3], [1]]
    stream.add("0", 4, modified=0)  # appeared late: it is older than all others
    assert list(stream.batches()) == [[4]]
    assert list(stream.batches()) == []


@pytest.mark.parametrize("limited", [True, False])
def test_all_at_once(tmp_path: Path, limited: bool) -> None:
    """`Trigger.Once` reads everything, whatever the limits are."""
    stream = Stream(tmp_path, rows=2, files=1)
    for number in range(3):
        stream.add(f"{number}", 3 * number, 3 * number + 1, 3 * number + 2, modified=number, group=1)
    assert stream.batch(limited) == ([0, 1] if limited else list(range(9)))


def test_a_batch_that_is_repeated_reads_the_same_files(tmp_path: Path) -> None:
    """The end of the batch is in the checkpoint, and it failed; others have appeared before it runs again."""
    stream = Stream(tmp_path)
    stream.add("b", 1, modified=5)
    planned = stream.planned()
    for name, modified in (("a", 1), ("bb", 5), ("c", 9)):
        stream.add(name, 2, modified=modified)
    stream.restart()
    assert stream.rows(stream.offset, planned) == [1]
    stream.offset = planned
    assert stream.batch() == [2, 2, 2]


def test_row_groups_are_divided_among_batches(tmp_path: Path) -> None:
    stream = Stream(tmp_path, rows=5)
    stream.add("a", *range(10), group=2)
    stream.add("b", *range(10, 17), modified=1, group=7)
    assert stream.batch() == [0, 1, 2, 3]
    stream.restart()
    assert list(stream.batches()) == [[4, 5, 6, 7], [8, 9], list(range(10, 17))]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_row_is_in_one_batch(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Files of any age appear at any time, and the query is restarted or repeats a batch at any time."""
    limit = st.none() | st.integers(1, 6)
    stream = Stream(tmp_path_factory.mktemp("stream"), data.draw(limit), data.draw(limit))
    added, received = 0, list[int]()
    with patch.object(file_log, "SEGMENT", 6), patch.object(file_log, "TOGETHER", 3):
        for number in range(data.draw(st.integers(1, 12))):
            match data.draw(st.sampled_from(["add", "restart", "batch", "batch", "repeat"])):
                case "add":
                    for part in range(data.draw(st.integers(1, 4))):
                        count = data.draw(st.integers(0, 5))
                        age = data.draw(st.integers(0, 3))
                        stream.add(f"{number}-{part}", *range(added, added + count), modified=age, group=2)
                        added += count
                case "restart":
                    stream.restart()
                case "batch":
                    received += stream.batch()
                case "repeat":
                    start, planned = stream.offset, stream.planned()
                    first = stream.rows(start, planned)
                    stream.add(f"{number}-late", added, modified=data.draw(st.integers(0, 3)))
                    added += 1
                    stream.restart()
                    assert stream.rows(start, planned) == first
        stream.restart()
        # A batch may have no rows, where files have none.
        while True:
            before = stream.offset
            received += stream.batch()
            if stream.offset == before:
                break
    assert sorted(received) == list(range(added))
    assert len(received) == added


class TestWhatIsThere:
    def test_ends(self, tmp_path: Path) -> None:
        stream = Stream(tmp_path, files=1)
        stream.add("a", 1)
        stream.add("b", 2, modified=1)
        stream.stream.end_with_what_is_there()
        assert stream.batch() == [1]
        stream.add("c", 3)
        assert list(stream.batches()) == [[2]]
        stream.restart()
        stream.stream.end_with_what_is_there()
        assert list(stream.batches()) == [[3]]

    def test_a_backlog_and_new_files(self, tmp_path: Path) -> None:
        stream = Stream(tmp_path, files=1)
        stream.add("a", 1)
        stream.add("b", 2, modified=1)
        assert stream.batch() == [1]
        stream.restart()
        stream.add("c", 3)
        stream.stream.end_with_what_is_there()
        assert list(stream.batches()) == [[2], [3]]

    def test_nothing(self, tmp_path: Path) -> None:
        stream = Stream(tmp_path)
        stream.stream.end_with_what_is_there()
        assert stream.batch() == []
        stream.add("a", 1)
        assert stream.batch() == []


COUNT = 100_000


class Folder(fs.FileSystemHandler):  # type: ignore[misc]
    """A folder of files that are not there."""

    def __init__(self) -> None:
        self.listed = 0

    def get_type_name(self) -> str:
        return "many"

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [fs.FileInfo(path, type=fs.FileType.Directory) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self.listed += 1
        return [
            fs.FileInfo(f"/many/{number:07d}.parquet", type=fs.FileType.File, size=1_000, mtime_ns=number)
            for number in range(COUNT)
        ]


for _name in fs.FileSystemHandler.__abstractmethods__ - set(vars(Folder)):
    setattr(Folder, _name, lambda *_: None)
Folder.__abstractmethods__ = frozenset()


def test_a_backlog_is_listed_once(tmp_path: Path) -> None:
    handler = Folder()
    files = FileSet(("/many",), ("/many",), fs.PyFileSystem(handler), Parquet(), SCHEMA)
    stream = FileStream(files, Limits(None, 1_000), LOCAL, str(tmp_path))
    position, seen = Position(), 0
    for batch in range(COUNT // 1_000):
        if batch == 50:  # a restart
            stream = FileStream(files, Limits(None, 1_000), LOCAL, str(tmp_path))
        end = stream.after(position)
        seen += sum(len(share) for share in stream.shares(position, end, 2))
        position = end
    assert seen >= COUNT
    assert handler.listed == 1
    assert stream.after(position) == position
    assert handler.listed == 2
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.gz")) < 2_000_000


class TestLog:
    @staticmethod
    def files(*numbers: int) -> list[File]:
        return [File(f"/in/{number}", 1, number) for number in numbers]

    def test_small_segments_are_merged(self, tmp_path: Path) -> None:
        log = FileLog.new(LOCAL, str(tmp_path))
        for number in range(200):
            log.append(self.files(number))
        assert len(list((tmp_path / log.name).iterdir())) < 2 * file_log.TOGETHER
        again = FileLog.of(LOCAL, str(tmp_path), log.name)
        assert list(again.files(0, 200)) == list(log.files(0, 200)) == self.files(*range(200))
        assert list(again.files(3, 6)) == self.files(3, 4, 5)
        assert again.unseen(self.files(7, 200, 199, 201)) == self.files(200, 201)

    def test_what_a_crash_leaves(self, tmp_path: Path) -> None:
        """A merged segment stands beside those that it was made of, and a segment was not finished."""
        log = FileLog.new(LOCAL, str(tmp_path))
        log.append(self.files(0, 1))
        log.append(self.files(2))
        folder = tmp_path / log.name
        other = FileLog.new(LOCAL, str(tmp_path))
        other.append(self.files(0, 1, 2))
        merged = next((tmp_path / other.name).iterdir())
        merged.rename(folder / merged.name)
        (folder / ".0123").write_bytes(b"half")
        assert list(FileLog.of(LOCAL, str(tmp_path), log.name).files(0, 9)) == self.files(0, 1, 2)

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(MuntinError, match="which the checkpoint refers to, is missing"):
            FileLog.of(LOCAL, str(tmp_path), "0123")

    def test_damaged(self, tmp_path: Path) -> None:
        log = FileLog.new(LOCAL, str(tmp_path))
        log.append(self.files(*range(10)))
        path = next((tmp_path / log.name).iterdir())
        path.write_bytes(path.read_bytes()[:20])
        with pytest.raises(MuntinError, match=r"list of files .* cannot be read"):
            FileLog.of(LOCAL, str(tmp_path), log.name)

    def test_of_a_later_version(self, tmp_path: Path) -> None:
        with patch.object(file_log, "VERSION", 9):
            log = FileLog.new(LOCAL, str(tmp_path))
            log.append(self.files(1))
        with pytest.raises(MuntinError, match="is of version 9, and this Muntin reads version 1"):
            FileLog.of(LOCAL, str(tmp_path), log.name)

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "log").write_text("a file")
        stream = Stream(tmp_path)
        stream.add("a", 1)
        with pytest.raises(MuntinError, match=r"keeps a list of its files, and cannot write it .* Give log="):
            stream.batch()


@pytest.mark.parametrize("offset", [{}, {"log": "a", "files": None, "byte": 0}, {"0": 3}])
def test_offsets_of_others(offset: dict[str, Any]) -> None:
    with pytest.raises(MuntinError, match=r"which is not one of muntin.scan"):
        Position.of(offset)


def test_a_log_that_lost_its_end(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.add("a", 1)
    stream.batch()
    stream.add("b", 2)
    stream.batch()
    last = max((tmp_path / "log").rglob("*.gz"))
    last.unlink()
    stream.restart()
    with pytest.raises(MuntinError, match="is missing"):
        stream.batch()
