"""What nobody needs any more in the folder of a host: of streams that have ended, and of workers that were killed.

A query that uses its folder touches it, so that others see that it is alive. Those remove what nobody has touched for
a day: what drivers could not remove, on another host or killed. What streams of the same session have left goes as soon
as the next one is at work on the host. If one is alive after all, it has lost copies, and reads its state instead.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from muntin.host import private

TEND_SECONDS = 60.0
"""How often a worker touches the folder of a query and looks around."""
STALE_SECONDS = 86_400.0
UNFINISHED_SECONDS = 600.0
"""Nobody writes a file for so long."""

_tended: dict[tuple[str, str], float] = {}
"""When this worker did so, by folder and query."""


@dataclass(frozen=True)
class Streams:
    """The streams of a session, as the driver knew them when a query was made."""

    owner: str
    """The session."""
    running: frozenset[str]
    at: float
    """When: what is touched later may be of a stream that was started later."""


def tend_if_due(path: str, base: int, query: str, folder: int, streams: Streams | None) -> None:
    now = time.monotonic()
    if now - _tended.get((path, query), -TEND_SECONDS) < TEND_SECONDS:
        return
    _tended[path, query] = now
    with suppress(OSError):
        _tend(base, query, folder, streams)


def _tend(base: int, query: str, folder: int, streams: Streams | None) -> None:
    os.utime(folder)
    now = os.fstat(folder).st_mtime  # by the clock that other folders have their times from
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
    """Whether all streams that it is are of the session, and none was running."""
    with private.opened(query, base, make=False) as folder, private.opened("streams", folder, make=False) as notes:
        known = [name.split(".") for name in private.own_names(notes, private.FILE)]
    return bool(known) and all(owner == streams.owner and stream not in streams.running for owner, stream in known)


def _remove_unfinished(files: int, now: float) -> None:
    for name in private.own_names(files, private.FILE):
        found = private.FILE.fullmatch(name)
        if found is not None and found["unfinished"]:
            with suppress(OSError):
                if private.age(files, name, now) > UNFINISHED_SECONDS:
                    private.delete(files, name)
