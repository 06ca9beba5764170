"""Where the chunks of a shard are in its state.

With a fine slide, chunks are small and a batch has hundreds of them; each would take one call to write and one to
delete. So neighbours share a value, a bundle, which is deleted with the last of them. Pieces, which are folded before
long, have values of their own.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from muntin.engine.state import StateValues
from muntin.panes.packed import Kind, seal, unseal, verify_chunk

BUNDLE_BYTES = 1 << 20
"""The maximal size of a bundle, unless a single chunk is larger."""


@dataclass(frozen=True)
class Location:
    """Where a chunk is in the state."""

    value: str
    """The name of the value that contains the chunk."""
    size: int
    """The bytes of the whole value."""
    offset: int | None
    """Where the chunk begins in the value; None if the value is the chunk."""


class Bundles:
    """The values that contain chunks, for one batch. Added chunks wait for `write`, or until a bundle is full."""

    def __init__(self, values: StateValues, locations: Iterable[tuple[str, Location]], limit: int | None) -> None:
        """`locations` are those of the existing chunks, by name. Bundles take a fraction of the memory limit."""
        self._values = values
        self._locations = dict(locations)
        self._users = Counter(location.value for location in self._locations.values())
        self._max_bytes = BUNDLE_BYTES if limit is None else min(BUNDLE_BYTES, limit // 8)
        self._waiting: dict[str, bytes] = {}
        self._waiting_bytes = 0
        self._opened: tuple[str, memoryview] | None = None

    def location(self, chunk: str) -> Location:
        return self._locations[chunk]

    @property
    def nbytes(self) -> int:
        """The bytes of the values, with what they still contain of dropped chunks."""
        return sum({location.value: location.size for location in self._locations.values()}.values())

    def read(self, chunk: str, size: int) -> bytes:
        if chunk in self._waiting:
            return self._waiting[chunk]
        location = self._locations[chunk]
        name, offset = location.value, location.offset
        if offset is None:
            return self._values.read(name, location.size, _verified)
        # Chunks are read one after the other, and those of a bundle are neighbours.
        if self._opened is None or self._opened[0] != name:
            self._opened = name, self._values.read(name, location.size, partial(unseal, Kind.BUNDLE))
        return bytes(self._opened[1][offset : offset + size])

    def add(self, chunk: str, value: bytes, alone: bool) -> None:
        if alone:
            self._values.write(chunk, value)
            self._locate(chunk, Location(chunk, len(value), None))
            return
        if self._waiting and self._waiting_bytes + len(value) > self._max_bytes:
            self.write()
        self._waiting[chunk] = value
        self._waiting_bytes += len(value)

    def write(self) -> None:
        """Write the chunks that were added."""
        if not self._waiting:
            return
        name, value = f"bundle-{uuid.uuid4().hex}", seal(Kind.BUNDLE, b"".join(self._waiting.values()))
        self._values.write(name, value)
        offset = 0
        for chunk, chunk_bytes in self._waiting.items():
            self._locate(chunk, Location(name, len(value), offset))
            offset += len(chunk_bytes)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _locate(self, chunk: str, location: Location) -> None:
        self._locations[chunk] = location
        self._users[location.value] += 1

    def drop(self, chunk: str) -> None:
        if chunk in self._waiting:
            self._waiting_bytes -= len(self._waiting.pop(chunk))
            return
        location = self._locations.pop(chunk)
        self._users[location.value] -= 1
        if not self._users[location.value]:
            self._values.delete(location.value, location.size)


def _verified(value: bytes) -> bytes:
    verify_chunk(value)
    return value
