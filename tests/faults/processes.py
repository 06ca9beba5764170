"""Finds the processes of a stream in /proc, and kills them: only those that were started here."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.scenarios import Victim

CAN_SEE = sys.platform == "linux" and Path("/proc/self/stat").exists()
"""Whether /proc is available."""


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    group: int
    session: int
    command: tuple[str, ...]

    @property
    def is_java(self) -> bool:
        return bool(self.command) and self.command[0].endswith("java")

    @property
    def is_python_daemon(self) -> bool:
        """Also true for its workers, which are forks with the same command."""
        return "pyspark.daemon" in self.command

    @property
    def is_executor(self) -> bool:
        return self.is_java and any("CoarseGrainedExecutorBackend" in part for part in self.command)


def running() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # the process has ended
                # The name in parentheses may contain anything. The fields follow it.
                state, parent, group, session, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
                command = tuple((folder / "cmdline").read_bytes().decode(errors="replace").split("\0"))
                if state != "Z":
                    yield Process(int(folder.name), int(parent), int(group), int(session), command)


def of_sessions(sessions: Iterable[int]) -> list[Process]:
    wanted = set(sessions)
    return [process for process in running() if process.session in wanted]


def cluster_sessions(place: Path) -> set[int]:
    """The sessions of a cluster that this process started in `place`: its workers, with their executors."""
    return {
        process.session
        for process in running()
        if process.parent == os.getpid()
        and process.pid == process.session
        and any(str(place) in part for part in process.command)
    }


def kill(victim: Victim, driver: int, cluster: Path | None, random: Random) -> bool:
    """Kill a victim of the stream whose session `driver` leads. Returns False if there is none yet."""
    if victim == "driver":
        os.killpg(driver, signal.SIGKILL)
        return True
    processes = of_sessions({driver} if cluster is None or victim == "jvm" else cluster_sessions(cluster))
    pids = _candidates(victim, processes)
    if not pids:
        return False
    if victim != "workers":
        pids = [random.choice(sorted(pids))]
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed > 0


def _candidates(victim: Victim, processes: list[Process]) -> list[int]:
    if victim == "jvm":
        return [process.pid for process in processes if process.is_java]
    if victim == "executor":
        return [process.pid for process in processes if process.is_executor]
    python = [process for process in processes if process.is_python_daemon]
    java = {process.pid for process in processes if process.is_java}
    daemons = {process.pid for process in python if process.parent in java}
    if victim == "daemon":
        return list(daemons)
    return [process.pid for process in python if process.parent in daemons]


def end_session(leader: int) -> None:
    """Kill all remaining processes of a session."""
    for process in of_sessions({leader}):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
