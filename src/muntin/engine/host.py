"""Optional storage on the host of a worker: copies of state, and notes of features.

Both only make a query faster. The integration that runs the engine provides them; the default stores nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Copies(Protocol):
    """Copies of the values of one shard, for all workers of the host."""

    def read(self, name: str, size: int) -> bytes | None:
        """The copy of a value with that size; None if there is none."""
        ...

    def write(self, name: str, value: bytes) -> None: ...

    def delete(self, name: str) -> None: ...

    def claim(self) -> None:
        """Record that this worker runs the shard now."""
        ...

    def is_elsewhere(self) -> bool:
        """Whether another worker of the host has run the shard since this one claimed it."""
        ...


class Folder(Protocol):
    """Small files of one query. A failed read returns None, and a failed write is ignored."""

    def read(self, name: str, most: int) -> bytes | None:
        """The content of a file of at most `most` bytes; None for larger files."""
        ...

    def write(self, name: str, value: bytes) -> None:
        """Write a file, and replace an existing one."""
        ...

    def create(self, name: str, value: bytes) -> None:
        """Write a file, unless it exists."""
        ...

    def append(self, name: str, line: bytes) -> None: ...

    def delete(self, name: str) -> None: ...

    def names(self) -> list[str]: ...


class Host(Protocol):
    """Storage for copies and notes."""

    @property
    def path(self) -> str | None:
        """The folder on this host, if there is one."""
        ...

    def copies(self, query: str, shard: int) -> Copies: ...

    def folder(self, query: str, part: str) -> Folder: ...

    def forget(self, query: str) -> None:
        """Remove everything of a query."""
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
    """A host that stores nothing."""

    path: str | None = None

    def copies(self, query: str, shard: int) -> Copies:
        return Nothing()

    def folder(self, query: str, part: str) -> Folder:
        return Nothing()

    def forget(self, query: str) -> None: ...


NO_HOST = NoHost()
