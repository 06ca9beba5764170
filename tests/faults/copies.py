"""Copies of values on the hosts: were there any, and what if a kill had left them in pieces?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from muntin.engine.state import COPIED_BYTES

_LEFT = ".999999999"
"""What unfinished files of a process that is no more end with."""


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
                copy.with_name(copy.name + _LEFT).write_bytes(half)
                if self._random.random() < 0.5:
                    damaged = copy.with_name(f"damaged-{copy.name}{_LEFT}")
                    damaged.write_bytes(half)
                    damaged.replace(copy)

    def _copies(self) -> list[Path]:
        found = []
        for folder in (each for host in self._hosts for each in host.glob("muntin-*")):
            for parent, _, names in os.walk(folder):  # which does not mind what is deleted meanwhile
                found += [path for name in names if _is_copy(path := Path(parent, name))]
        return sorted(found)


def _is_copy(path: Path) -> bool:
    with suppress(OSError):
        return path.suffix != _LEFT and path.stat().st_size >= COPIED_BYTES
    return False
