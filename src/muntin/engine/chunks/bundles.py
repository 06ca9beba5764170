"""Where the chunks of a shard are in its state.

A chunk of a fine slide is small, and there are hundreds of them in a batch, each of which would take a call to be
written and one to be deleted. So neighbours share a value, a bundle, which goes with the last of them. Pieces, which
are folded before long, have values of their own.
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
"""As large as a bundle gets, unless one chunk is larger."""


@dataclass(frozen=True)
class Place:
    value: str
    """The name of the value in the state."""
    size: int
    """Its bytes, all of them."""
    at: int | None
    """Where in it the chunk begins; None if it is the chunk."""


class Bundles:
    """The values that hold chunks, for one batch. Chunks that are added wait for `write`, or until a bundle is full."""

    def __init__(self, values: StateValues, places: Iterable[tuple[str, Place]], limit: int | None) -> None:
        """The places of the chunks that are there, by name; under a limit of memory, bundles are small beside that."""
        self._values = values
        self._places = dict(places)
        self._users = Counter(place.value for place in self._places.values())
        self._most = BUNDLE_BYTES if limit is None else min(BUNDLE_BYTES, limit // 8)
        self._waiting: dict[str, bytes] = {}
        self._waiting_bytes = 0
        self._opened: tuple[str, memoryview] | None = None

    def place(self, chunk: str) -> Place:
        return self._places[chunk]

    @property
    def nbytes(self) -> int:
        """What the values take, with what is left in them of chunks that are gone."""
        return sum({place.value: place.size for place in self._places.values()}.values())

    def read(self, chunk: str, size: int) -> bytes:
        if chunk in self._waiting:
            return self._waiting[chunk]
        place = self._places[chunk]
        if place.at is None:
            return self._values.read(place.value, place.size, _verified)
        # Chunks are read one after the other, and those of a bundle are neighbours.
        if self._opened is None or self._opened[0] != place.value:
            self._opened = place.value, self._values.read(place.value, place.size, partial(unseal, Kind.BUNDLE))
        return bytes(self._opened[1][place.at : place.at + size])

    def add(self, chunk: str, value: bytes, alone: bool) -> None:
        if alone:
            self._values.write(chunk, value)
            self._settle(chunk, Place(chunk, len(value), None))
            return
        if self._waiting and self._waiting_bytes + len(value) > self._most:
            self.write()
        self._waiting[chunk] = value
        self._waiting_bytes += len(value)

    def write(self) -> None:
        """Write the chunks that were added."""
        if not self._waiting:
            return
        name, value, at = f"bundle-{uuid.uuid4().hex}", seal(Kind.BUNDLE, b"".join(self._waiting.values())), 0
        self._values.write(name, value)
        for chunk, part in self._waiting.items():
            self._settle(chunk, Place(name, len(value), at))
            at += len(part)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _settle(self, chunk: str, place: Place) -> None:
        self._places[chunk] = place
        self._users[place.value] += 1

    def drop(self, chunk: str) -> None:
        if chunk in self._waiting:
            self._waiting_bytes -= len(self._waiting.pop(chunk))
            return
        place = self._places.pop(chunk)
        self._users[place.value] -= 1
        if not self._users[place.value]:
            self._values.delete(place.value, place.size)


def _verified(value: bytes) -> bytes:
    verify_chunk(value)
    return value
