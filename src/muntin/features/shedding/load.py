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
import re
import socket
import time
from collections.abc import Iterable
from dataclasses import replace

from muntin.engine.host import NO_HOST, Host
from muntin.features.shedding.controller import Batch, next_rate
from muntin.features.shedding.notes import MOST_BYTES, done_tasks, durations, how_long, started_batch

LOOK_BACK = 8
"""How many batches are looked at."""
REPORTED_BATCHES = 3
"""Of how many it is told how long they took."""
STARTING = 10.0
"""So many seconds of the first batch do not count: then workers are started, and everything is slow once."""

_NOTE = re.compile("(start|done|heard)-(?P<batch>[0-9]+)")


class HostLoad:
    """The notes of one query on this host, for one batch. Nothing here may fail a batch: then nothing is shed.

    A note may hold anything: what a task that was killed left of it, or what was never ours.
    """

    def __init__(self, query: str, batch: int, host: Host = NO_HOST) -> None:
        self._folder = host.folder(query, "load")
        self._host = f"{socket.gethostname()}:{host.path}"
        self._batch = batch

    def rate(self, target: float) -> float:
        """The share that this batch sheds: decided once, by whoever comes first."""
        started = started_batch(self._read("start", self._batch))
        if started is None:
            now = time.time()
            rate = self._next_rate(target, now)
            is_first = not any(name.startswith("start-") for name in self._forget())
            self._folder.create(_note("start", self._batch), json.dumps([now, rate, is_first]).encode())
            started = started_batch(self._read("start", self._batch))
        return 0.0 if started is None else started.rate

    def done(self, latest: int | None = None, rows: int = 0) -> None:
        """A task is done: this was the latest event time that it saw, in microseconds, and so many rows came in."""
        self._add("done", self._batch, [time.time(), None if latest is None else latest / 1e6, rows])

    def report(self) -> bytes:
        """What other hosts should know: how long the last batches took this one."""
        took = [(number, batch.finished - batch.started) for number, batch in self._history().items()]
        return json.dumps([self._host, took[-REPORTED_BATCHES:]]).encode()

    def hear(self, told: Iterable[bytes]) -> None:
        """Leave a note on how long batches took other hosts."""
        longest: dict[int, float] = {}
        for host, took in map(how_long, set(told)):
            for number, seconds in took.items() if host != self._host else ():
                if self._batch - LOOK_BACK <= number < self._batch:
                    longest[number] = max(longest.get(number, 0.0), seconds)
        for number, seconds in longest.items():
            self._add("heard", number, [seconds])

    def _next_rate(self, target: float, now: float) -> float:
        """By the last batch that all hosts have told of, so that they come to the same; alone, a host knows the last.

        Then nothing changes until a batch is known that had the rate in force.
        """
        batches, heard = self._history(), []
        for number, batch in batches.items():
            if took := durations(self._read("heard", number)):
                heard.append(number)
                batches[number] = replace(batch, finished=max(batch.finished, batch.started + max(took)))
        until = max(heard, default=self._batch)
        known = [batch for number, batch in batches.items() if number <= until]
        since = [batch for number, batch in batches.items() if number > until]
        if since and since[-1].rate != known[-1].rate:
            return since[-1].rate
        return next_rate(target, known, since[0].started if since else now)

    def _history(self) -> dict[int, Batch]:
        """The batches before this one, by their numbers, as this host saw them."""
        found = {}
        for number in range(max(self._batch - LOOK_BACK, 0), self._batch):
            started, done = started_batch(self._read("start", number)), done_tasks(self._read("done", number))
            if started is not None and done:
                finished = max(task.at for task in done) - (STARTING if started.is_first else 0.0)
                latest = max((task.latest for task in done if task.latest is not None), default=None)
                rows = sum(task.rows for task in done)
                found[number] = Batch(started.at, max(started.at, finished), latest, started.rate, rows)
        return found

    def _forget(self) -> list[str]:
        """The names of notes, without those of long ago, which are removed."""
        names = self._folder.names()
        for name in names:
            note = _NOTE.match(name)
            if note is not None and int(note["batch"]) <= self._batch - 2 * LOOK_BACK:
                self._folder.delete(name)
        return names

    def _read(self, kind: str, batch: int) -> bytes:
        """A note; nothing where there is none."""
        return self._folder.read(_note(kind, batch), MOST_BYTES) or b""

    def _add(self, kind: str, batch: int, line: list[float | None]) -> None:
        self._folder.append(_note(kind, batch), json.dumps(line).encode() + b"\n")


def _note(kind: str, batch: int) -> str:
    return f"{kind}-{batch}"
