"""File systems: those of Arrow and of fsspec, given or named by the path."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import fs

from muntin import MuntinError
from muntin.files.file_set import FileSet
from muntin.files.listing import list_files
from muntin.files.parquet import Parquet
from muntin.files.paths import given_paths, resolved
from muntin.files.reading import Wanted, read
from muntin.files.shares import whole

SCHEMA = pa.schema([("n", pa.int64()), ("part", pa.int32())])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in (1, 2):
        place = tmp_path / "in" / f"part={part}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"n": [part, 10 * part]}), place / f"{part}.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "system"),
    [
        ("in", lambda folder: fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())),
        ("in", lambda folder: DirFileSystem(str(folder))),
        ("in/", lambda folder: DirFileSystem(str(folder))),
        ("{folder}/in", lambda folder: fs.LocalFileSystem()),
        ("file://{folder}/in", lambda folder: None),
        ("local://{folder}/in", lambda folder: None),
        ("local://{folder}/i*/", lambda folder: None),
    ],
)
def test_rows(folder: Path, path: str, system: Any) -> None:
    given = given_paths(path.format(folder=folder))
    filesystem, paths = pickle.loads(pickle.dumps(resolved(given, system(folder))))
    files = FileSet(given, paths, filesystem, Parquet(), SCHEMA)
    table = pa.Table.from_batches(read(files, whole(list_files(filesystem, paths)), Wanted(["n", "part"])), SCHEMA)
    assert table.to_pydict() == {"n": [1, 10, 2, 20], "part": [1, 1, 2, 2]}


@pytest.mark.parametrize(
    ("path", "system", "message"),
    [
        ("memory://rides", None, "which each process has for itself"),
        ("rides", MemoryFileSystem(), "which each process has for itself"),
        ("nowhere://rides", None, r"'nowhere://rides', which cannot be opened: .*give filesystem="),
        ("rides", "s3", r"filesystem must be one of pyarrow.fs or of fsspec, got str"),
        (["/in", "gs://anonymous@bucket/in"], None, "which are in different file systems"),
    ],
)
def test_mistakes(path: Any, system: Any, message: str) -> None:
    with pytest.raises(MuntinError, match=message):
        resolved(given_paths(path), system)


def test_one_that_cannot_be_sent(folder: Path) -> None:
    class Unsent(DirFileSystem):  # type: ignore[misc]
        """A class inside a function has no name by which another process could find it."""

    with pytest.raises(MuntinError, match="filesystem cannot be sent to the tasks"):
        resolved(("in",), Unsent(str(folder)))
