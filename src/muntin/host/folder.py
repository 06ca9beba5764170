"""The folder of a host in which queries keep copies of their state and notes on their load.

`muntin-UID` in the temporary directory, or where the session or the host says; in it, a folder for each query, and in
that one for each shard and for notes. Queries can do without: nothing here raises, and where there is no folder that is
ours alone, nothing is read and nothing is written.
"""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from muntin.errors import MuntinError
from muntin.host import private
from muntin.host.sweep import Streams, tend_if_due

SETTING = "spark.muntin.local.dir"
VARIABLE = "MUNTIN_LOCAL_DIR"
"""What a host says; it goes before what the session says."""
_OFF = ("off", "none")

Found = TypeVar("Found")


@dataclass(frozen=True)
class HostFolder:
    """What travels to the workers: each finds the folder of its own host."""

    place: str | None = None
    """What the session says: a directory, or that there should be no files; nothing means the temporary directory."""
    streams: Streams | None = None
    """Which streams ran when the query was made, so that what the others left can go."""

    @classmethod
    def checked(cls, place: str | None, streams: Streams | None = None) -> HostFolder:
        """As the session says, or an error that says what is wrong with it."""
        is_usable = place is None or _is_off(place) or (posixpath.isabs(place) and "\0" not in place)
        if not is_usable:
            raise MuntinError(
                f"{SETTING} is {place!r}. Set it to the absolute path of a directory on the workers, or to 'off' for "
                "no files there; unset, it is the temporary directory."
            )
        return cls(place, streams)

    @property
    def path(self) -> str | None:
        """The folder on this host; nothing if there should be none, or if there is no place for one."""
        place = os.environ.get(VARIABLE) or self.place
        if place is None and private.SUPPORTED:
            with suppress(OSError):  # no usable temporary directory
                place = tempfile.gettempdir()
        if place is None or not private.SUPPORTED or _is_off(place) or not posixpath.isabs(place):
            return None
        return posixpath.join(place, f"muntin-{os.geteuid()}")

    def forget(self, query: str) -> None:
        """Remove all that a query has here."""
        path = self.path
        if path is not None and private.QUERY.fullmatch(query):
            with suppress(OSError, ValueError), private.opened_base(path, make=False) as base:
                private.remove_query(base, query)


HERE = HostFolder()
"""In the temporary directory."""


class QueryFolder:
    """A part of the folder of a query. Every failure means that there is nothing, or that nothing is done."""

    def __init__(self, host: HostFolder, query: str, part: str) -> None:
        self._host = host
        self._query = query
        self._part = part

    def read(self, name: str, most: int) -> bytes | None:
        """A file of no more than so many bytes."""
        return self._do(name, False, lambda folder: private.read(folder, name, most))

    def write(self, name: str, value: bytes) -> None:
        """Write a file as a whole, in the place of one that is there."""
        self._do(name, True, lambda folder: private.write(folder, name, value))

    def create(self, name: str, value: bytes) -> None:
        """Write a file as a whole, unless there is one."""
        self._do(name, True, lambda folder: private.create(folder, name, value))

    def append(self, name: str, line: bytes) -> None:
        self._do(name, True, lambda folder: private.append(folder, name, line))

    def delete(self, name: str) -> None:
        self._do(name, False, lambda folder: private.delete(folder, name))

    def names(self) -> list[str]:
        return self._do(None, False, lambda folder: private.own_names(folder, private.FILE)) or []

    def _do(self, name: str | None, make: bool, what: Callable[[int], Found]) -> Found | None:
        is_ours = name is None or private.FILE.fullmatch(name)
        if is_ours and private.QUERY.fullmatch(self._query) and private.PART.fullmatch(self._part):
            with suppress(OSError, ValueError), self._opened(make) as folder:
                return what(folder)
        return None

    @contextmanager
    def _opened(self, make: bool) -> Iterator[int]:
        path = self._host.path
        if path is None:
            raise FileNotFoundError("There is no folder on this host.")
        with private.opened_base(path, make) as base, private.opened(self._query, base, make) as query:
            tend_if_due(path, base, self._query, query, self._host.streams)
            with private.opened(self._part, query, make) as folder:
                yield folder


def note_stream(host: HostFolder, query: str, stream: str) -> None:
    """Leave word of which stream a query is, for those who look for what streams have left."""
    if host.streams is not None:
        QueryFolder(host, query, "streams").write(f"{host.streams.owner}.{stream}", b"")


def _is_off(place: str) -> bool:
    return place.strip().lower() in _OFF
