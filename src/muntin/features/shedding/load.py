"""The durations of a stream's batches, as a host observes them, and the rate that follows from them.

A Spark task knows nothing of earlier batches. So tasks leave notes in a folder of the host: when a batch started, how
many rows it received, up to which event time, and when its shards were done. The first task of a batch reads the notes
of the batches before and decides for all tasks of the host.

Each host decides for itself. Different rates are harmless, because every tuple represents those shed beside it. But the
slow part may be on a single host, such as the only shard with a large key, while rows arrive everywhere. So every host
reports its durations with the panes that it sends to all shards, and these leave a note with their own host. A report
is known one batch later than a host's own durations.
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
"""The number of past batches that are read."""
REPORTED_BATCHES = 3
"""The number of batches whose durations a host reports."""
STARTING = 10.0
"""Seconds of the first batch that do not count, because workers start in it."""

_NOTE = re.compile("(start|done|heard)-(?P<batch>[0-9]+)")


class HostLoad:
    """The notes of one query on this host, for one batch. A failure here sheds nothing; it never fails the batch.

    A note may contain anything, such as the half line of a killed task or the bytes of another program.
    """

    def __init__(self, query: str, batch: int, host: Host = NO_HOST) -> None:
        self._folder = host.folder(query, "load")
        self._host = f"{socket.gethostname()}:{host.path}"
        self._batch = batch

    def rate(self, target: float | None, given: float | None = None) -> float:
        """The share that this batch sheds, as given or from the target; the first task decides."""
        started = started_batch(self._read("start", self._batch))
        if started is None:
            now = time.time()
            rate = given if target is None or given is not None else self._next_rate(target, now)
            is_first = not any(name.startswith("start-") for name in self._forget())
            self._folder.create(_note("start", self._batch), json.dumps([now, rate, is_first]).encode())
            started = started_batch(self._read("start", self._batch))
        return given or 0.0 if started is None else started.rate

    def done(self, latest: int | None = None, rows: int = 0) -> None:
        """Note that a task is done, with its latest event time in microseconds and the number of its rows."""
        self._add("done", self._batch, [time.time(), None if latest is None else latest / 1e6, rows])

    def report(self) -> bytes:
        """The report to other hosts: how long the last batches took on this one."""
        seconds = [(number, batch.finished - batch.started) for number, batch in self._history().items()]
        return json.dumps([self._host, seconds[-REPORTED_BATCHES:]]).encode()

    def hear(self, reports: Iterable[bytes]) -> None:
        """Leave a note on how long batches took on other hosts."""
        longest: dict[int, float] = {}
        for host, durations_of_host in map(how_long, set(reports)):
            for number, seconds in durations_of_host.items() if host != self._host else ():
                if self._batch - LOOK_BACK <= number < self._batch:
                    longest[number] = max(longest.get(number, 0.0), seconds)
        for number, seconds in longest.items():
            self._add("heard", number, [seconds])

    def _next_rate(self, target: float, now: float) -> float:
        """The rate from the batches up to the last one that all hosts have reported, so that hosts agree.

        A single host uses all batches. The rate then stays until the report of a batch that had this rate.
        """
        batches, heard = self._history(), []
        for number, batch in batches.items():
            if seconds := durations(self._read("heard", number)):
                heard.append(number)
                batches[number] = replace(batch, finished=max(batch.finished, batch.started + max(seconds)))
        until = max(heard, default=self._batch)
        known = [batch for number, batch in batches.items() if number <= until]
        newer = [batch for number, batch in batches.items() if number > until]
        if newer and newer[-1].rate != known[-1].rate:
            return newer[-1].rate
        return next_rate(target, known, newer[0].started if newer else now)

    def _history(self) -> dict[int, Batch]:
        """The batches before this one by number, as this host observed them."""
        history = {}
        for number in range(max(self._batch - LOOK_BACK, 0), self._batch):
            started, done = started_batch(self._read("start", number)), done_tasks(self._read("done", number))
            if started is not None and done:
                finished = max(task.time for task in done) - (STARTING if started.is_first else 0.0)
                latest = max((task.latest for task in done if task.latest is not None), default=None)
                rows = sum(task.rows for task in done)
                history[number] = Batch(started.time, max(started.time, finished), latest, started.rate, rows)
        return history

    def _forget(self) -> list[str]:
        """Remove old notes; returns the names of all that were there."""
        names = self._folder.names()
        for name in names:
            note = _NOTE.match(name)
            if note is not None and int(note["batch"]) <= self._batch - 2 * LOOK_BACK:
                self._folder.delete(name)
        return names

    def _read(self, kind: str, batch: int) -> bytes:
        """The bytes of a note; empty if there is none."""
        return self._folder.read(_note(kind, batch), MOST_BYTES) or b""

    def _add(self, kind: str, batch: int, line: list[float | None]) -> None:
        self._folder.append(_note(kind, batch), json.dumps(line).encode() + b"\n")


def _note(kind: str, batch: int) -> str:
    return f"{kind}-{batch}"
