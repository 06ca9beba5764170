"""Copies of segments on the host, for the workers that share it.

Spark hands a shard now to one Python worker and now to another, and megabytes come back slowly from Spark's state. A
segment never changes and its name is never used twice, so a file with its bytes
is as good as the state, for every worker of the host. The state stays the truth: a copy that is missing is read from
there, and one that is damaged fails its checksum and is, too.
"""

from __future__ import annotations

import os

from muntin.host.folder import HERE, HostFolder, QueryFolder

_HOLDER = "holder"
_MOST_HOLDER = 32
"""Bytes of a process id."""


class LocalCopies:
    """The copies of one shard of one query. Nothing here may fail a batch: every error is a copy less."""

    def __init__(self, query: str, shard: int, host: HostFolder = HERE) -> None:
        self._folder = QueryFolder(host, query, str(shard))

    def read(self, name: str, size: int) -> bytes | None:
        """The copy of a value of that size."""
        return self._folder.read(name, size)

    def write(self, name: str, value: bytes) -> None:
        self._folder.write(name, value)

    def claim(self) -> None:
        """Say that this worker has the shard now."""
        self._folder.write(_HOLDER, _this_worker())

    def is_elsewhere(self) -> bool:
        """Whether another worker of the host has had the shard since this one claimed it."""
        holder = self._folder.read(_HOLDER, _MOST_HOLDER)
        return holder is not None and holder != _this_worker()

    def delete(self, name: str) -> None:
        self._folder.delete(name)


def _this_worker() -> bytes:
    return str(os.getpid()).encode()
