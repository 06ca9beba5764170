"""Folders and files that are ours alone, reached by descriptors.

A temporary directory belongs to everybody: others may have put a link, a pipe or a folder of theirs where ours should
be, and may do so between a look at a name and its use. So every folder on the way is opened without following links,
and what is then done goes by what was opened. Whatever is not a real folder or file of ours is an OSError.
Only names of our own making are touched.
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
"""Folders of queries, in the folder of the host."""
PART = re.compile("[0-9]+|load|streams")
"""Folders in that of a query: of a shard, of notes on the load, and of the streams that it is."""
FILE = re.compile(
    r"(holder|(start|done|heard)-[0-9]+|([0-9]+|samples|chunk|bundle)-[0-9a-f]{32})(?P<unfinished>\.[0-9a-f]{32})?"
    r"|[0-9a-f]{32}\.[0-9a-f-]{36}"
)
"""Files in those: which worker has a shard, notes, values of the state, each perhaps unfinished, and streams."""

_OURS_ALONE, _OTHERS_CAN_WRITE = 0o700, 0o022

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""Or a pipe in the place of a file would be waited for."""

SUPPORTED = (
    all(hasattr(os, name) for name in ("geteuid", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK"))
    and {os.open, os.mkdir, os.rmdir, os.unlink, os.rename, os.link, os.stat} <= os.supports_dir_fd
    and {os.listdir, os.utime, os.chmod} <= os.supports_fd
)
"""Whether the platform can do this at all; Windows cannot."""


@contextmanager
def opened_base(path: str, make: bool) -> Iterator[int]:
    """The folder of the host, with its mode set right.

    One that others could write to may hold what they made, or ours under other names: nothing in it is used any more.
    """
    folder = _open(path, None, make)
    try:
        mode = _mode_of_ours(folder)
        if mode & _OTHERS_CAN_WRITE:
            remove_queries(folder)
        if mode != _OURS_ALONE:
            os.fchmod(folder, _OURS_ALONE)
        if mode & _OTHERS_CAN_WRITE:
            remove_queries(folder)  # what came in between
        yield folder
    finally:
        os.close(folder)


@contextmanager
def opened(name: str, at: int, make: bool) -> Iterator[int]:
    """A folder in one of ours; made if it is missing, where that is wanted."""
    folder = _open(name, at, make)
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
    """A file of no more than so many bytes."""
    file = os.open(name, os.O_RDONLY | _NO_LINK | _NO_WAIT, dir_fd=folder)
    try:
        size = _about_file(file).st_size
        if size > most:
            raise OSError(f"{name} has more than {most} bytes.")
        return os.read(file, size)
    finally:
        os.close(file)


def write(folder: int, name: str, value: bytes) -> None:
    """Write a file as a whole: nobody sees a part of it."""
    unfinished = _new(folder, name, value)
    try:
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(unfinished, dir_fd=folder)
        raise


def create(folder: int, name: str, value: bytes) -> None:
    """The same, but whoever comes first has written it: then a FileExistsError."""
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
    """Remove the folder of a query with all that we made in it; it stays if there is anything else."""
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
    with suppress(OSError):  # gone, or a folder
        os.unlink(name, dir_fd=folder)


@contextmanager
def _to_empty(name: str, at: int) -> Iterator[int]:
    """A folder of ours, whoever can write to it."""
    folder = _open(name, at, make=False)
    try:
        _mode_of_ours(folder)
        yield folder
    finally:
        os.close(folder)


def _open(name: str, at: int | None, make: bool) -> int:
    """A folder that is no link."""
    try:
        return os.open(name, _FOLDER, dir_fd=at)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, _OURS_ALONE, dir_fd=at)
    return os.open(name, _FOLDER, dir_fd=at)


def _mode_of_ours(folder: int) -> int:
    about = os.fstat(folder)
    if about.st_uid != os.geteuid():
        raise PermissionError("This folder belongs to somebody else.")
    return about.st_mode & 0o777


def _about_file(file: int) -> os.stat_result:
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        raise PermissionError("This is no file of ours.")
    return about


def _new(folder: int, name: str, value: bytes) -> str:
    """A file with this content under a name that is used once; what kills us may leave it behind."""
    unfinished = f"{name}.{uuid.uuid4().hex}"
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as content:
            content.write(value)
    except OSError:
        os.unlink(unfinished, dir_fd=folder)
        raise
    return unfinished
