"""Listing: which files a path, a folder or a pattern means."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from muntin import MuntinError
from muntin.files.listing import list_files
from muntin.files.paths import given_paths, resolved

FILES = (
    "a.parquet",
    "b.parquet",
    "empty/",
    "in/c.parquet",
    "in/deep/d.parquet",
    "date=2024-01-01/e.parquet",
    "_date=1/f.parquet",
    "_SUCCESS",
    ".hidden",
    "_temporary/g.parquet",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / name
        if name.endswith("/"):
            path.mkdir()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
    (tmp_path / "z.parquet").touch()  # no bytes
    return tmp_path


def names(folder: Path, *patterns: str) -> list[str]:
    filesystem, paths = resolved(given_paths([str(folder / pattern) for pattern in patterns]))
    return [Path(file.path).relative_to(folder).as_posix() for file in list_files(filesystem, paths)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (".", ["_date=1/f.parquet", "a.parquet", "b.parquet", "date=2024-01-01/e.parquet", "in/c.parquet",
               "in/deep/d.parquet"]),
        ("a.parquet", ["a.parquet"]),
        ("*.parquet", ["a.parquet", "b.parquet"]),
        ("[ab].parquet", ["a.parquet", "b.parquet"]),
        ("[^a].parquet", ["b.parquet"]),
        ("[!a].parquet", ["b.parquet"]),
        ("?.par*", ["a.parquet", "b.parquet"]),
        ("{a,c}.parquet", ["a.parquet"]),
        ("*/c.parquet", ["in/c.parquet"]),
        ("i*", ["in/c.parquet", "in/deep/d.parquet"]),
        ("*/*/*.parquet", ["in/deep/d.parquet"]),
        ("date=*/", ["date=2024-01-01/e.parquet"]),
        ("empty", []),
        ("nothing*", []),
    ],
)  # fmt: skip
def test_paths(folder: Path, pattern: str, expected: list[str]) -> None:
    assert names(folder, pattern) == expected


def test_a_file_that_two_paths_mean_is_listed_once(folder: Path) -> None:
    assert names(folder, "*.parquet", "a.parquet", "in") == ["a.parquet", "b.parquet", "in/c.parquet",
                                                             "in/deep/d.parquet"]  # fmt: skip


def test_sizes_and_times_are_those_of_the_file(folder: Path) -> None:
    file = list_files(fs.LocalFileSystem(), [str(folder / "a.parquet")])[0]
    assert (file.size, file.modified) == (1, (folder / "a.parquet").stat().st_mtime_ns)


def test_a_path_with_nothing_there(folder: Path) -> None:
    with pytest.raises(MuntinError, match=r"There is nothing at .*none.parquet'; check the path"):
        names(folder, "none.parquet")
    with pytest.raises(MuntinError, match=r"has a \{ that is not closed"):
        names(folder, "{a,b")


def test_uris_of_local_files(folder: Path) -> None:
    for uri in (f"file://{folder}/a.parquet", f"file:{folder}/a%2Eparquet"):
        _, paths = resolved((uri,))
        assert paths == (str(folder / "a.parquet"),)


@pytest.mark.parametrize("path", [None, 3, "", [], [None], b""])
def test_what_is_no_path(path: object) -> None:
    with pytest.raises(MuntinError, match="path "):
        given_paths(path)
