"""Named values of a shard: in the state, with copies of large ones on the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from muntin.engine.host import NO_HOST, Host
from muntin.errors import StateError

COPIED_BYTES = 1 << 18
"""The minimal size of a value for a copy on the host: smaller ones are read from the state as fast."""
PART_BYTES = 1 << 22
"""A longer value is written in parts, as Spark's state copies values several times. Existing state is cut at this size,
so it must never change."""

Read = TypeVar("Read")


class StateBackend(Protocol):
    """The state that the store needs of an engine: one header, the description of the query, and named values.

    All changes of a batch are committed atomically.
    """

    def read_header(self) -> bytes | None: ...
    def write_header(self, value: bytes) -> None: ...
    def read_description(self) -> bytes | None: ...
    def write_description(self, value: bytes) -> None: ...
    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, value: bytes) -> None: ...
    def delete(self, name: str) -> None: ...


@dataclass
class MemoryState:
    """A backend in memory, for queries without an engine."""

    header: bytes | None = None
    values: dict[str, bytes] = field(default_factory=dict)
    description: bytes | None = None

    def read_header(self) -> bytes | None:
        return self.header

    def write_header(self, value: bytes) -> None:
        self.header = value

    def read_description(self) -> bytes | None:
        return self.description

    def write_description(self, value: bytes) -> None:
        self.description = value

    def read(self, name: str) -> bytes | None:
        return self.values.get(name)

    def write(self, name: str, value: bytes) -> None:
        self.values[name] = value

    def delete(self, name: str) -> None:
        del self.values[name]

    def copy(self) -> MemoryState:
        return MemoryState(self.header, dict(self.values), self.description)


class StateValues:
    """Named values. Names are never reused, so a copy is either current or useless."""

    def __init__(self, backend: StateBackend, query: str, shard: int, host: Host = NO_HOST) -> None:
        self._backend = backend
        self._shard = shard
        self._copies = host.copies(query, shard)

    def write(self, name: str, value: bytes) -> None:
        for part, offset in _parts(name, len(value)):
            self._backend.write(part, value[offset : offset + PART_BYTES])
        if len(value) >= COPIED_BYTES:
            self._copies.write(name, value)

    def read(self, name: str, size: int, unpack: Callable[[bytes], Read]) -> Read:
        """The value of that size, unpacked; `unpack` raises a StateError if it is damaged."""
        copy = self._copies.read(name, size)
        if copy is not None:
            with suppress(StateError):  # a damaged copy: the state has the original
                return unpack(copy)
        parts = [self._backend.read(part) for part, _ in _parts(name, size)]
        if None in parts:
            raise StateError(
                f"Value {name} is missing from the state of shard {self._shard}. "
                "Restore the checkpoint from a backup, or start the query with a new checkpoint location."
            )
        return unpack(b"".join(part for part in parts if part is not None))

    def delete(self, name: str, size: int) -> None:
        for part, _ in _parts(name, size):
            self._backend.delete(part)
        self._copies.delete(name)


def _parts(name: str, size: int) -> list[tuple[str, int]]:
    """The names of the parts of a value in the state, and the offset of each."""
    offsets = range(0, size, PART_BYTES)
    return [(name if offset == 0 else f"{name}.{offset // PART_BYTES}", offset) for offset in offsets]
