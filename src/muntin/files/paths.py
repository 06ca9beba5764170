"""Where the files of a scan are: paths as given, and the file system that they belong to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import unquote

from pyarrow import fs

from muntin.checks import encodable
from muntin.errors import MuntinError


def given_paths(path: object) -> tuple[str, ...]:
    """The paths that the user gave, as text."""
    listed = path if isinstance(path, list | tuple) else [path]
    if not listed:
        raise MuntinError("path is empty; give at least one file, folder or pattern, such as 'rides/*.parquet'.")
    return tuple(map(_text, listed))


def _text(path: object) -> str:
    if not isinstance(path, str | os.PathLike) or not str(os.fspath(path)):
        raise MuntinError(
            f"path must be a file, a folder or a pattern such as 'rides/*.parquet', or a list of them, got {path!r}."
        )
    return encodable(str(os.fspath(path)), "path")


def resolved(given: Sequence[str]) -> tuple[fs.FileSystem, tuple[str, ...]]:
    """The file system of these paths, and the paths in it."""
    return fs.LocalFileSystem(), tuple(_local(path) for path in given)


def _local(path: str) -> str:
    """The path on this machine, with its whole name: workers may have another working directory."""
    if path.startswith("file:"):
        path = unquote(path.removeprefix("file:"))
        path = path.removeprefix("//") if path.startswith("///") else path
    elif "://" in path:
        raise MuntinError(f"path is {path!r}, and scan reads local files only; use spark.read or spark.readStream.")
    return os.path.abspath(path)  # noqa: PTH100 - resolving would follow links
