"""What the engine may find on the host of a worker: a place for copies of its state, and for notes of features.

Both only make a query faster. Whoever runs the engine provides them; without, there is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Copies(Protocol):
    """Copies of the values of one shard, for all workers of the host."""

    def read(self, name: str, size: int) -> bytes | None:
        """The copy of a value of that size; None if there is none."""
        ...

    def write(self, name: str, value: bytes) -> None: ...

    def delete(self, name: str) -> None: ...

    def claim(self) -> None:
        """Note that this worker has the shard now."""
        ...

    def is_elsewhere(self) -> bool:
        """Whether another worker of the host has had the shard since this one claimed it."""
        ...


class Folder(Protocol):
    """Small files of one query. Reading fails to None, and writing does nothing where it cannot."""

    def read(self, name: str, most: int) -> bytes | None:
        """A file of no more than so many bytes."""
        ...

    def create(self, name: str, value: bytes) -> None:
        """Write a file, unless it is there."""
        ...

    def append(self, name: str, line: bytes) -> None: ...

    def delete(self, name: str) -> None: ...

    def names(self) -> list[str]: ...


class Host(Protocol):
    """Where copies and notes are kept."""

    @property
    def path(self) -> str | None:
        """The folder on this host, if there is one."""
        ...

    def copies(self, query: str, shard: int) -> Copies: ...

    def folder(self, query: str, part: str) -> Folder: ...

    def forget(self, query: str) -> None:
        """Remove what a query has left."""
        ...


@dataclass(frozen=True)
class Nothing:
    """No copies, and no files."""

    def read(self, name: str, most: int) -> bytes | None:
        return None

    def write(self, name: str, value: bytes) -> None: ...

    def create(self, name: str, value: bytes) -> None: ...

    def append(self, name: str, line: bytes) -> None: ...

    def delete(self, name: str) -> None: ...

    def names(self) -> list[str]:
        return []

    def claim(self) -> None: ...

    def is_elsewhere(self) -> bool:
        return False


@dataclass(frozen=True)
class NoHost:
    """A host that keeps nothing."""

    path: str | None = None

    def copies(self, query: str, shard: int) -> Copies:
        return Nothing()

    def folder(self, query: str, part: str) -> Folder:
        return Nothing()

    def forget(self, query: str) -> None: ...


NO_HOST = NoHost()
