"""Removes stale files from the folder of a host: those of ended streams and killed workers.

A running query regularly touches its folder to show that it is alive. Its workers remove folders that were not touched
for a day, which a driver on another host, or a killed one, could not remove. Folders of ended streams of the same
session are removed as soon as the next stream runs on the host. A live query whose folder is removed only loses copies,
and reads from its state instead.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from muntin.spark.host import private

TEND_SECONDS = 60.0
"""How often a worker touches the folder of its query and looks for stale files."""
STALE_SECONDS = 86_400.0
UNFINISHED_SECONDS = 600.0
"""An unfinished file of this age is abandoned."""

_tended: dict[tuple[str, str], float] = {}
"""When this worker last did so, by folder and query."""


@dataclass(frozen=True)
class Streams:
    """The running streams of a session when a query was created."""

    owner: str
    """The id of the session."""
    running: frozenset[str]
    at: float
    """The time of this snapshot: a folder touched later may belong to a stream that started later."""


def tend_if_due(path: str, base: int, query: str, folder: int, streams: Streams | None) -> None:
    now = time.monotonic()
    if now - _tended.get((path, query), -TEND_SECONDS) < TEND_SECONDS:
        return
    _tended[path, query] = now
    with suppress(OSError):
        _tend(base, query, folder, streams)


def _tend(base: int, query: str, folder: int, streams: Streams | None) -> None:
    os.utime(folder)
    now = os.fstat(folder).st_mtime  # the clock of the file system, as for the other folders
    for other in private.own_names(base, private.QUERY):
        if other != query and _is_left(base, other, now, streams):
            private.remove_query(base, other)
    for part in private.own_names(folder, private.PART):
        with suppress(OSError), private.opened(part, folder, make=False) as files:
            _remove_unfinished(files, now)


def _is_left(base: int, query: str, now: float, streams: Streams | None) -> bool:
    with suppress(OSError):
        age = private.age(base, query, now)
        if age > STALE_SECONDS:
            return True
        return streams is not None and now - age < streams.at and _has_ended(base, query, streams)
    return False


def _has_ended(base: int, query: str, streams: Streams) -> bool:
    """Whether all streams that run the query belong to the session and none was running."""
    with private.opened(query, base, make=False) as folder, private.opened("streams", folder, make=False) as notes:
        names = [name.split(".") for name in private.own_names(notes, private.FILE)]
    return bool(names) and all(owner == streams.owner and stream not in streams.running for owner, stream in names)


def _remove_unfinished(files: int, now: float) -> None:
    for name in private.own_names(files, private.FILE):
        match = private.FILE.fullmatch(name)
        if match is not None and match["unfinished"]:
            with suppress(OSError):
                if private.age(files, name, now) > UNFINISHED_SECONDS:
                    private.delete(files, name)
