"""Copies of values on the hosts: were there any, and what if a kill had left them in pieces?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from muntin.panes.values import COPIED_BYTES


class Spoiler:
    """Looks for copies in the temporary folders of hosts, and damages some as a crash of the host could."""

    def __init__(self, hosts: Sequence[Path], random: Random) -> None:
        self._hosts = hosts
        self._random = random
        self._known: set[Path] = set()

    @property
    def seen(self) -> int:
        """How many copies there have been."""
        return len(self._known)

    def look(self) -> None:
        self._known.update(self._copies())

    def spoil(self) -> None:
        """Half of the copies lose their end, and unfinished ones lie beside them.

        By renaming, so that who reads one just now goes on with what it has.
        """
        for copy in self._copies():
            with suppress(OSError):
                half = copy.read_bytes()[: copy.stat().st_size // 2]
                copy.with_name(f"{copy.name}.999999999").write_bytes(half)
                if self._random.random() < 0.5:
                    unfinished = copy.with_name(f"{copy.name}.999999998")
                    unfinished.write_bytes(half)
                    unfinished.replace(copy)

    def _copies(self) -> list[Path]:
        found = []
        for host in self._hosts:
            for path in host.glob("muntin-*/**/*"):
                with suppress(OSError):
                    if path.is_file() and path.stat().st_size >= COPIED_BYTES:
                        found.append(path)
        return sorted(found)
