"""Copies of segments on the host, shared by its Python workers.

Spark moves a shard from one Python worker to another, and reading megabytes from Spark's state is slow. Segments are
immutable and their names are unique, so a local file with the bytes of a segment replaces that read for every worker of
the host. Spark's state remains the source of truth: a missing copy, or one that fails its checksum, is read from there.
"""

from __future__ import annotations

import os

from muntin.spark.host.folder import HERE, HostFolder, QueryFolder

_HOLDER = "holder"
_MOST_HOLDER = 32
"""The most bytes of a process id."""


class LocalCopies:
    """The copies of one shard of one query. An error here never fails a batch: the copy is just not there."""

    def __init__(self, query: str, shard: int, host: HostFolder = HERE) -> None:
        self._folder = QueryFolder(host, query, str(shard))

    def read(self, name: str, size: int) -> bytes | None:
        """The copy of a value with `size` bytes, if there is one."""
        return self._folder.read(name, size)

    def write(self, name: str, value: bytes) -> None:
        self._folder.write(name, value)

    def claim(self) -> None:
        """Record that this worker has the shard now."""
        self._folder.write(_HOLDER, _this_worker())

    def is_elsewhere(self) -> bool:
        """Whether another worker of the host has had the shard since this one claimed it."""
        holder = self._folder.read(_HOLDER, _MOST_HOLDER)
        return holder is not None and holder != _this_worker()

    def delete(self, name: str) -> None:
        self._folder.delete(name)


def _this_worker() -> bytes:
    return str(os.getpid()).encode()
