"""Copies of segments on the host, for the workers that share it.

Spark hands a shard now to one Python worker and now to another, and megabytes come back slowly from Spark's state. A
segment never changes and its name is never used twice, so a file with its bytes
is as good as the state, for every worker of the host. The state stays the truth: a copy that is missing is read from
there, and one that is damaged fails its checksum and is, too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_STALE_SECONDS = 86_400
_HOLDER = "holder"


class LocalCopies:
    """The copies of one shard of one query. Nothing here may fail a batch: every error is a copy less."""

    def __init__(self, query: str, shard: int) -> None:
        self._query = query
        self._folder = query_folder(query) / str(shard)

    def read(self, name: str) -> bytes | None:
        with suppress(OSError):
            if is_ours(self._folder):
                return (self._folder / name).read_bytes()
        return None

    def write(self, name: str, value: bytes) -> None:
        with suppress(OSError):
            if not self._folder.exists():
                private_folder(self._query, self._folder.name)
                _remove_stale(self._folder.parent)
            if is_ours(self._folder):
                unfinished = self._folder / f"{name}.{os.getpid()}"
                unfinished.write_bytes(value)
                unfinished.replace(self._folder / name)

    def claim(self) -> None:
        """Say that this worker has the shard now."""
        self.write(_HOLDER, str(os.getpid()).encode())

    def is_elsewhere(self) -> bool:
        """Whether another worker of the host has had the shard since this one claimed it."""
        holder = self.read(_HOLDER)
        return holder is not None and holder != str(os.getpid()).encode()

    def delete(self, name: str) -> None:
        with suppress(OSError):
            (self._folder / name).unlink(missing_ok=True)


def private_folder(query: str, name: str) -> Path:
    """A folder of a query that nobody else can write to; it may be missing, if it cannot be made."""
    folder = query_folder(query) / name
    with suppress(OSError):
        folder.parent.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def query_folder(query: str) -> Path:
    return Path(tempfile.gettempdir()) / f"muntin-{os.getuid()}" / query


def forget(query: str) -> None:
    """Remove all copies of a query."""
    shutil.rmtree(query_folder(query), ignore_errors=True)


def is_ours(folder: Path) -> bool:
    """Whether nobody else can have put files there."""
    about = folder.parent.parent.stat()
    return about.st_uid == os.getuid() and about.st_mode & 0o022 == 0


def _remove_stale(current: Path) -> None:
    """Remove what queries left behind whose driver could not: on another host, or killed."""
    for other in current.parent.iterdir():
        if other != current and time.time() - other.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
