"""The rate that is set by hand while a stream runs: the manual command of CoD.

`muntin.shed_rate` leaves a note on the hosts, and the first task of a batch reads it. The note is in a folder of the
stream, not of the query: the id of a stream is in its checkpoint, so a stream that is started again finds its rate.
Hosts without the note learn of it through the shards, as they learn how long batches took elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muntin.engine.host import NO_HOST, Host
from muntin.features.shedding.notes import MOST_COMMAND_BYTES, Command, command_of

_NOTE = "manual"


class ManualRate:
    """The note of one stream on this host."""

    def __init__(self, stream: str | None, host: Host = NO_HOST) -> None:
        self._folder = (NO_HOST if stream is None else host).folder((stream or "").replace("-", ""), "load")

    def command(self) -> Command | None:
        """The last command; None if there was none."""
        return command_of(self._folder.read(_NOTE, MOST_COMMAND_BYTES) or b"")

    def give(self, command: Command) -> bool:
        """Leave a note for the next batch; returns whether the host has it."""
        self._folder.write(_NOTE, command.note())
        return self.command() == command

    def hear(self, reports: Iterable[Any]) -> None:
        """Leave a note of the latest command that other hosts know, if it is later than the one here."""
        commands = [command for report in reports if (command := Command.of(report)) is not None]
        if commands:
            latest, here = max(commands, key=lambda command: command.at), self.command()
            if here is None or here.at < latest.at:
                self.give(latest)
