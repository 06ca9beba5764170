"""The Python workers of this process's Spark session: their memory and their end. There are none but on Linux."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

DAEMON = b"pyspark.daemon"
_PAUSE = 0.1
"""Seconds between two looks at the memory of workers."""


@dataclass
class Peak:
    """The most memory that all workers had at one moment."""

    size: int = 0
    """In bytes. What processes share, such as code, is divided among them."""
    workers: int = 0

    def look(self) -> None:
        sizes = _of_workers("smaps_rollup", "Pss:")
        if sum(sizes) > self.size:
            self.size, self.workers = sum(sizes), len(sizes)


@contextmanager
def together() -> Iterator[Peak]:
    """The peak memory of all workers together, while the block runs. Idle workers of before do not count."""
    end_idle_workers()
    peak, ended = Peak(), Event()

    def watch() -> None:
        while not ended.wait(_PAUSE):
            peak.look()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def worker_peaks() -> list[int]:
    """The peak resident memory of each Python worker in bytes."""
    return _of_workers("status", "VmHWM:")


def worker_memory() -> list[int]:
    """The current resident memory of each Python worker in bytes."""
    return _of_workers("status", "VmRSS:")


def cpu_seconds() -> float:
    """The processor time of all descendants of this process, with those of theirs that have ended."""
    ticks = 0
    for pid in _children():
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # in user and system mode, and the same of ended children
    return ticks / os.sysconf("SC_CLK_TCK")


def _of_workers(file: str, field: str) -> list[int]:
    sizes = []
    for pid in _workers():
        lines = _read(pid, file).decode().splitlines()
        sizes += [int(line.split()[1]) * 1024 for line in lines if line.startswith(field)]
    return sizes


def _workers() -> set[int]:
    """The workers and the process that starts them."""
    return {pid for pid in _children() if DAEMON in _read(pid, "cmdline")}


def end_idle_workers() -> None:
    """End the idle Python workers of this session. Spark starts new ones when it needs them."""
    daemons = _workers()
    for pid in daemons:
        if _parent(pid) in daemons:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _children() -> set[int]:
    """The pids of all descendants of this process."""
    parents = {int(path.name): _parent(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    descendants, count = {os.getpid()}, 0
    while len(descendants) > count:
        count = len(descendants)
        descendants |= {pid for pid, parent in parents.items() if parent in descendants}
    return descendants - {os.getpid()}


def _parent(pid: int) -> int:
    status = _read(pid, "stat")
    return int(status.rpartition(b")")[2].split()[1]) if status else 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""  # the process has ended
