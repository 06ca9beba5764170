"""Copies of values on the hosts: counts them, and damages them as a kill could."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from muntin.engine.state import COPIED_BYTES

_UNFINISHED = ".999999999"
"""The suffix of unfinished files of a process that has ended."""


class Spoiler:
    """Looks for copies in the temporary folders of hosts, and damages some as a crash of the host could."""

    def __init__(self, hosts: Sequence[Path], random: Random) -> None:
        self._hosts = hosts
        self._random = random
        self._known: set[Path] = set()

    @property
    def seen(self) -> int:
        """The number of copies so far."""
        return len(self._known)

    def look(self) -> None:
        self._known.update(self._copies())

    def spoil(self) -> None:
        """Truncate half of the copies, and add unfinished files beside all of them.

        Files are replaced by renaming, so that a process that reads one can finish.
        """
        for copy in self._copies():
            with suppress(OSError):
                half = copy.read_bytes()[: copy.stat().st_size // 2]
                copy.with_name(copy.name + _UNFINISHED).write_bytes(half)
                if self._random.random() < 0.5:
                    damaged = copy.with_name(f"damaged-{copy.name}{_UNFINISHED}")
                    damaged.write_bytes(half)
                    damaged.replace(copy)

    def _copies(self) -> list[Path]:
        copies = []
        for folder in (path for host in self._hosts for path in host.glob("muntin-*")):
            for parent, _, names in os.walk(folder):  # os.walk ignores what is deleted meanwhile
                copies += [path for name in names if _is_copy(path := Path(parent, name))]
        return sorted(copies)


def _is_copy(path: Path) -> bool:
    with suppress(OSError):
        return path.suffix != _UNFINISHED and path.stat().st_size >= COPIED_BYTES
    return False
