"""The folder on a host in which queries keep copies of their state and notes about their load.

It is `muntin-UID` in the temporary directory, or in the directory that the session or the host sets. It has a folder
for each query, with subfolders for shards and notes. Queries work without it: nothing here raises, and without a
private folder nothing is read or written.
"""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from muntin.engine.host import Copies
from muntin.errors import MuntinError
from muntin.spark.host import private
from muntin.spark.host.sweep import Streams, tend_if_due

SETTING = "spark.muntin.local.dir"
VARIABLE = "MUNTIN_LOCAL_DIR"
"""The setting of a host; it overrides the setting of the session."""
_OFF = ("off", "none")

Value = TypeVar("Value")


@dataclass(frozen=True)
class HostFolder:
    """The settings that are sent to the workers, each of which finds the folder of its own host."""

    place: str | None = None
    """The setting of the session: a directory, or "off" for no files; None means the temporary directory."""
    streams: Streams | None = None
    """The streams that ran when the query was created: the files of all others can be removed."""

    @classmethod
    def checked(cls, place: str | None, streams: Streams | None = None) -> HostFolder:
        """The folder with the setting of the session; an error if the setting is invalid."""
        is_usable = place is None or _is_off(place) or (posixpath.isabs(place) and "\0" not in place)
        if not is_usable:
            raise MuntinError(
                f"{SETTING} is {place!r}. Set it to the absolute path of a directory on the workers, or to 'off' for "
                "no files there; unset, it is the temporary directory."
            )
        return cls(place, streams)

    @property
    def path(self) -> str | None:
        """The folder on this host; None if it is switched off or no directory is usable."""
        place = os.environ.get(VARIABLE) or self.place
        if place is None and private.SUPPORTED:
            with suppress(OSError):  # no usable temporary directory
                place = tempfile.gettempdir()
        if place is None or not private.SUPPORTED or _is_off(place) or not posixpath.isabs(place):
            return None
        return posixpath.join(place, f"muntin-{os.geteuid()}")

    def copies(self, query: str, shard: int) -> Copies:
        from muntin.spark.host.copies import LocalCopies

        return LocalCopies(query, shard, self)

    def folder(self, query: str, part: str) -> QueryFolder:
        return QueryFolder(self, query, part)

    def forget(self, query: str) -> None:
        """Remove all files of a query."""
        path = self.path
        if path is not None and private.QUERY.fullmatch(query):
            with suppress(OSError, ValueError), private.opened_base(path, make=False) as base:
                private.remove_query(base, query)


HERE = HostFolder()
"""The folder in the temporary directory."""


class QueryFolder:
    """A subfolder of a query. On failure, reads return nothing and writes do nothing."""

    def __init__(self, host: HostFolder, query: str, part: str) -> None:
        self._host = host
        self._query = query
        self._part = part

    def read(self, name: str, most: int) -> bytes | None:
        """The content of a file of at most `most` bytes."""
        return self._do(name, False, lambda folder: private.read(folder, name, most))

    def write(self, name: str, value: bytes) -> None:
        """Write a file atomically, replacing an existing one."""
        self._do(name, True, lambda folder: private.write(folder, name, value))

    def create(self, name: str, value: bytes) -> None:
        """Write a file atomically, unless it exists."""
        self._do(name, True, lambda folder: private.create(folder, name, value))

    def append(self, name: str, line: bytes) -> None:
        self._do(name, True, lambda folder: private.append(folder, name, line))

    def delete(self, name: str) -> None:
        self._do(name, False, lambda folder: private.delete(folder, name))

    def names(self) -> list[str]:
        return self._do(None, False, lambda folder: private.own_names(folder, private.FILE)) or []

    def _do(self, name: str | None, make: bool, action: Callable[[int], Value]) -> Value | None:
        is_ours = name is None or private.FILE.fullmatch(name)
        if is_ours and private.QUERY.fullmatch(self._query) and private.PART.fullmatch(self._part):
            with suppress(OSError, ValueError), self._opened(make) as folder:
                return action(folder)
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
    """Record which stream runs a query, so that others can tell when its files are no longer needed."""
    if host.streams is not None:
        QueryFolder(host, query, "streams").write(f"{host.streams.owner}.{stream}", b"")


def _is_off(place: str) -> bool:
    return place.strip().lower() in _OFF
