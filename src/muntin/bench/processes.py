"""The Python workers of this process's Spark session: their memory and their end. There are none but on Linux."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

DAEMON = b"pyspark.daemon"


def worker_peaks() -> list[int]:
    """The peak resident memory of each Python worker in bytes."""
    return _of_workers("VmHWM")


def worker_memory() -> list[int]:
    """The current resident memory of each Python worker in bytes."""
    return _of_workers("VmRSS")


def _of_workers(field: str) -> list[int]:
    sizes = []
    for pid in _workers():
        lines = _read(pid, "status").decode().splitlines()
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
