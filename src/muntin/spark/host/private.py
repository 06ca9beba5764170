"""Private folders and files, accessed through descriptors.

A temporary directory is shared. Another user may put a link, a pipe or a folder at our path, even between a check and
the use of the path. So every folder is opened without following links, and all operations use the open descriptor.
Anything that is not a regular file or folder of ours raises an OSError. Only names that we generate are touched.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from re import Pattern

QUERY = re.compile("[0-9a-f]{32}")
"""Names of query folders, in the folder of the host."""
PART = re.compile("[0-9]+|load|streams")
"""Names of subfolders of a query: shards, notes about the load, and streams that run the query."""
FILE = re.compile(
    r"(holder|manual|(start|done|heard)-[0-9]+|([0-9]+|samples|chunk|bundle)-[0-9a-f]{32})(?P<unfinished>\.[0-9a-f]{32})?"
    r"|[0-9a-f]{32}\.[0-9a-f-]{36}"
)
"""Names of files in these: holders of shards, rates set by hand, notes and values of the state, perhaps unfinished, and
streams."""

_OURS_ALONE, _OTHERS_CAN_WRITE = 0o700, 0o022

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""Without it, opening a pipe in the place of a file would block."""

SUPPORTED = (
    all(hasattr(os, name) for name in ("geteuid", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK"))
    and {os.open, os.mkdir, os.rmdir, os.unlink, os.rename, os.link, os.stat} <= os.supports_dir_fd
    and {os.listdir, os.utime, os.chmod} <= os.supports_fd
)
"""Whether the platform supports this; Windows does not."""


@contextmanager
def opened_base(path: str, make: bool) -> Iterator[int]:
    """The folder of the host, with private permissions.

    If others could write to it, its files may be theirs, or ours under other names, so all queries in it are removed.
    """
    folder = _open(path, None, make)
    try:
        mode = _mode_of_ours(folder)
        if mode & _OTHERS_CAN_WRITE:
            remove_queries(folder)
        if mode != _OURS_ALONE:
            os.fchmod(folder, _OURS_ALONE)
        if mode & _OTHERS_CAN_WRITE:
            remove_queries(folder)  # added before the permissions changed
        yield folder
    finally:
        os.close(folder)


@contextmanager
def opened(name: str, parent: int, make: bool) -> Iterator[int]:
    """A folder inside one of ours; `make` creates a missing one."""
    folder = _open(name, parent, make)
    try:
        mode = _mode_of_ours(folder)
        if mode & _OTHERS_CAN_WRITE:
            raise PermissionError(f"Others can write to {name}.")
        if mode != _OURS_ALONE:
            os.fchmod(folder, _OURS_ALONE)
        yield folder
    finally:
        os.close(folder)


def own_names(folder: int, pattern: Pattern[str]) -> list[str]:
    return [name for name in os.listdir(folder) if pattern.fullmatch(name)]


def read(folder: int, name: str, most: int) -> bytes:
    """The content of a file of at most `most` bytes."""
    file = os.open(name, os.O_RDONLY | _NO_LINK | _NO_WAIT, dir_fd=folder)
    try:
        size = _about_file(file).st_size
        if size > most:
            raise OSError(f"{name} has more than {most} bytes.")
        return os.read(file, size)
    finally:
        os.close(file)


def write(folder: int, name: str, value: bytes) -> None:
    """Write a file atomically: nobody sees a partial file."""
    unfinished = _new(folder, name, value)
    try:
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(unfinished, dir_fd=folder)
        raise


def create(folder: int, name: str, value: bytes) -> None:
    """Write a new file atomically; a FileExistsError if it exists."""
    unfinished = _new(folder, name, value)
    try:
        os.link(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    finally:
        os.unlink(unfinished, dir_fd=folder)


def append(folder: int, name: str, line: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK | _NO_WAIT
    file = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        if _about_file(file).st_nlink != 1:
            raise PermissionError(f"{name} is a file elsewhere, too.")
        os.write(file, line)
    finally:
        os.close(file)


def age(folder: int, name: str, now: float) -> float:
    return now - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime


def remove_queries(base: int) -> None:
    for query in own_names(base, QUERY):
        remove_query(base, query)


def remove_query(base: int, query: str) -> None:
    """Remove our files in the folder of a query, and the folder if that leaves it empty."""
    with suppress(OSError):
        with _to_empty(query, base) as folder:
            for part in own_names(folder, PART):
                with suppress(OSError):
                    with _to_empty(part, folder) as files:
                        for file in own_names(files, FILE):
                            delete(files, file)
                    os.rmdir(part, dir_fd=folder)
        os.rmdir(query, dir_fd=base)


def delete(folder: int, name: str) -> None:
    with suppress(OSError):  # missing, or a folder
        os.unlink(name, dir_fd=folder)


@contextmanager
def _to_empty(name: str, parent: int) -> Iterator[int]:
    """A folder of ours, whatever its permissions."""
    folder = _open(name, parent, make=False)
    try:
        _mode_of_ours(folder)
        yield folder
    finally:
        os.close(folder)


def _open(name: str, parent: int | None, make: bool) -> int:
    """The descriptor of a folder that is not a link."""
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, _OURS_ALONE, dir_fd=parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _mode_of_ours(folder: int) -> int:
    status = os.fstat(folder)
    if status.st_uid != os.geteuid():
        raise PermissionError("This folder belongs to somebody else.")
    return status.st_mode & 0o777


def _about_file(file: int) -> os.stat_result:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError("This is no file of ours.")
    return status


def _new(folder: int, name: str, value: bytes) -> str:
    """Write the content to a file with a unique name; a killed worker may leave it behind."""
    unfinished = f"{name}.{uuid.uuid4().hex}"
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as content:
            content.write(value)
    except OSError:
        os.unlink(unfinished, dir_fd=folder)
        raise
    return unfinished
