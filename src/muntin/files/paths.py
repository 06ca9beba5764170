"""Where the files of a scan are: paths as given, and the file system that they belong to."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from muntin.checks import encodable
from muntin.errors import MuntinError
from muntin.files.listing import base_of

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://(.*)", re.DOTALL)
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Names of file systems in Hadoop, and those that Arrow knows."""


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


def resolved(given: Sequence[str], filesystem: Any = None) -> tuple[fs.FileSystem, tuple[str, ...]]:
    """The file system of these paths, and the paths in it."""
    if filesystem is not None:
        system = _wrapped(filesystem)
        local = isinstance(system, fs.LocalFileSystem)
        return system, tuple(_local(path) if local else path.rstrip("/") or "/" for path in given)
    (system, first), *others = (_resolved(path) for path in given)
    for path, (other, _) in zip(given[1:], others, strict=True):
        if not other.equals(system):
            raise MuntinError(
                f"path has {given[0]!r} and {path!r}, which are in different file systems; scan those of one at a time."
            )
    return system, (first, *(path for _, path in others))


def _resolved(path: str) -> tuple[fs.FileSystem, str]:
    match = _URI.fullmatch(path)
    if match is None or match[1] == "file":
        return fs.LocalFileSystem(), _local(path)
    scheme, rest = _SAME.get(match[1], match[1]), match[2]
    # Wildcards mean something else in a URI, so it ends before them.
    base = base_of(rest) if rest != base_of(rest) else rest
    uri = f"{scheme}://{base}"
    try:
        system, folder = fs.FileSystem.from_uri(uri)
    except OSError as error:
        raise _not_opened(path, error) from error
    except (pa.ArrowException, ValueError) as error:
        system, folder = _by_fsspec(uri, path, error)
    return _sendable(system), f"{folder.rstrip('/')}{rest[len(base) :]}"


def _by_fsspec(uri: str, path: str, reason: Exception) -> tuple[fs.FileSystem, str]:
    """A file system that Arrow does not know, if fsspec does."""
    try:
        from fsspec.core import url_to_fs

        system, folder = url_to_fs(uri)
    except ImportError as error:
        raise MuntinError(
            f"path is {path!r}, and Arrow has no such file system: {_short(reason)}. fsspec may, with its package for "
            f"it: {_short(error)}. Or give filesystem=."
        ) from error
    except Exception as error:  # of whatever file system that is
        raise _not_opened(path, error) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), str(folder)


def _not_opened(path: str, error: Exception) -> MuntinError:
    return MuntinError(f"path is {path!r}, which cannot be opened: {_short(error)}. Check it, or give filesystem=.")


def _wrapped(filesystem: Any) -> fs.FileSystem:
    if isinstance(filesystem, fs.FileSystem):
        return _sendable(filesystem)
    if hasattr(filesystem, "protocol") and hasattr(filesystem, "open") and hasattr(filesystem, "find"):
        return _sendable(fs.PyFileSystem(fs.FSSpecHandler(filesystem)))
    raise MuntinError(
        f"filesystem must be one of pyarrow.fs or of fsspec, got {type(filesystem).__name__}; leave it out for local "
        "files and for paths such as 's3://bucket/rides'."
    )


def _sendable(filesystem: fs.FileSystem) -> fs.FileSystem:
    """Check that tasks can have the file system."""
    handler = getattr(filesystem, "handler", None)
    if "memory" in _protocols(getattr(handler, "fs", None)):
        raise MuntinError(
            "path is in fsspec's file system 'memory', which each process has for itself: tasks would find nothing. "
            "Write the files to a folder."
        )
    try:
        pickle.dumps(filesystem)
    except Exception as error:
        raise MuntinError(
            f"filesystem cannot be sent to the tasks: {_short(error)}. Give one that can be pickled."
        ) from error
    return filesystem


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = getattr(filesystem, "protocol", ())
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _short(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _local(path: str) -> str:
    """The path on this machine, with its whole name: workers may have another working directory."""
    if path.startswith("file:"):
        path = unquote(path.removeprefix("file:"))
        path = path.removeprefix("//") if path.startswith("///") else path
    return os.path.abspath(path)  # noqa: PTH100 - resolving would follow links
