"""What the batches of a stream take, as a host sees it, and the rate that follows from it.

Tasks of Spark know nothing of the batches before theirs. So they leave notes in a folder of the host: when a batch
began, how many rows came in and up to which event time, when its shards were done. The first task of a batch reads
those of the batches before and decides for all tasks of the host.

Hosts decide for themselves, and where they differ a little, every tuple still stands for as many as were shed beside
it. But all that is slow may be on one of them: the only shard with a large key, say, while tuples come in everywhere.
So every host tells how long batches took it, with the panes that it sends to all shards anyway, and those leave a note
on what they heard with their own host. That is known a batch later than what a host sees itself.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from muntin.panes.copies import is_ours, private_folder
from muntin.shedding.controller import Batch, next_rate

LOOK_BACK = 8
"""How many batches are looked at."""
TOLD = 3
"""Of how many it is told how long they took."""
STARTING = 10.0
"""So many seconds of the first batch do not count: then workers are started, and everything is slow once."""


class HostLoad:
    """The notes of one query on this host, for one batch. Nothing here may fail a batch: then nothing is shed."""

    def __init__(self, query: str, batch: int) -> None:
        self._folder = private_folder(query, "load")
        self._batch = batch

    def rate(self, target: float) -> float:
        """The share that this batch sheds: decided once, by whoever comes first."""
        place = self._note("start", self._batch)
        with suppress(OSError):
            if not is_ours(self._folder):
                return 0.0
        if not place.exists():
            now = time.time()
            rate = self._next_rate(target, now)
            with suppress(OSError):
                is_first = not any(self._folder.glob("start-*"))
                unfinished = place.with_name(f"{os.getpid()}.{place.name}")
                unfinished.write_text(json.dumps([now, rate, is_first]))
                with suppress(FileExistsError):
                    os.link(unfinished, place)
                unfinished.unlink()
                self._forget()
        started = _read(place)
        return float(started[0][1]) if started else 0.0

    def done(self, latest: int | None = None, rows: int = 0) -> None:
        """A task is done: this was the latest event time that it saw, in microseconds, and so many rows came in."""
        line = json.dumps([time.time(), None if latest is None else latest / 1e6, rows])
        with suppress(OSError), self._note("done", self._batch).open("a") as notes:
            notes.write(line + "\n")

    def told(self) -> bytes:
        """What other hosts should know: how long the last batches took this one."""
        took = [(number, batch.finished - batch.started) for number, batch in self._history().items()]
        return json.dumps([self._host, took[-TOLD:]]).encode()

    def hear(self, told: Iterable[bytes]) -> None:
        """Leave a note on how long batches took other hosts."""
        longest: dict[int, float] = {}
        with suppress(ValueError, TypeError):
            for host, took in map(json.loads, set(told)):
                for number, seconds in took if host != self._host else ():
                    longest[number] = max(longest.get(number, 0.0), float(seconds))
        for number, seconds in longest.items():
            with suppress(OSError), self._note("heard", number).open("a") as notes:
                notes.write(json.dumps([seconds]) + "\n")

    @property
    def _host(self) -> str:
        return f"{socket.gethostname()}:{self._folder}"

    def _next_rate(self, target: float, now: float) -> float:
        """By the last batch that all hosts have told of, so that they come to the same; alone, a host knows the last.

        Then nothing changes until a batch is known that had the rate in force.
        """
        batches, heard = self._history(), []
        for number, batch in batches.items():
            if notes := _read(self._note("heard", number)):
                heard.append(number)
                took = max(each[0] for each in notes)
                batches[number] = replace(batch, finished=max(batch.finished, batch.started + took))
        until = max(heard, default=self._batch)
        known = [batch for number, batch in batches.items() if number <= until]
        since = [batch for number, batch in batches.items() if number > until]
        if since and since[-1].rate != known[-1].rate:
            return since[-1].rate
        return next_rate(target, known, since[0].started if since else now)

    def _history(self) -> dict[int, Batch]:
        """The batches before this one, by their numbers, as this host saw them."""
        found = {}
        for number in range(self._batch - LOOK_BACK, self._batch):
            started, done = _read(self._note("start", number)), _read(self._note("done", number))
            if started and done:
                ((begun, rate, is_first),) = started
                finished = max(each[0] for each in done) - (STARTING if is_first else 0.0)
                latest = max((each[1] for each in done if each[1] is not None), default=None)
                rows = sum(int(each[2]) for each in done)
                found[number] = Batch(begun, max(begun, finished), latest, rate, rows)
        return found

    def _forget(self) -> None:
        for kind in ("start", "done", "heard"):
            self._note(kind, self._batch - 2 * LOOK_BACK).unlink(missing_ok=True)

    def _note(self, kind: str, batch: int) -> Path:
        return self._folder / f"{kind}-{batch}"


def _read(place: Path) -> list[list[float]]:
    """The lines of a note; of one that is missing or damaged, none."""
    with suppress(OSError, ValueError):
        return [json.loads(line) for line in place.read_text().splitlines()]
    return []
