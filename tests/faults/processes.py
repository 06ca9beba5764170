"""The processes of a stream, and how to find the one to kill: by /proc, and only among those that were started here."""

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
"""Whether processes can be looked up here."""


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
        """Its workers are forks of it, and are called the same."""
        return "pyspark.daemon" in self.command

    @property
    def is_executor(self) -> bool:
        return self.is_java and any("CoarseGrainedExecutorBackend" in each for each in self.command)


def running() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                # The name, in brackets, may hold anything; what follows it are plain fields.
                state, parent, group, session, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
                command = tuple((folder / "cmdline").read_bytes().decode(errors="replace").split("\0"))
                if state != "Z":
                    yield Process(int(folder.name), int(parent), int(group), int(session), command)


def of_sessions(sessions: Iterable[int]) -> list[Process]:
    wanted = set(sessions)
    return [each for each in running() if each.session in wanted]


def cluster_sessions(place: Path) -> set[int]:
    """The sessions of a cluster that this process has started there: those of its workers, and of their executors."""
    return {
        each.session
        for each in running()
        if each.parent == os.getpid() and each.pid == each.session and any(str(place) in part for part in each.command)
    }


def kill(victim: Victim, driver: int, cluster: Path | None, random: Random) -> bool:
    """Kill one of the processes of a stream, of which `driver` leads the session; False if there is none yet."""
    if victim == "driver":
        os.killpg(driver, signal.SIGKILL)
        return True
    found = of_sessions({driver} if cluster is None or victim == "jvm" else cluster_sessions(cluster))
    chosen = _candidates(victim, found)
    if not chosen:
        return False
    if victim != "workers":
        chosen = [random.choice(sorted(chosen))]
    killed = 0
    for pid in chosen:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed > 0


def _candidates(victim: Victim, found: list[Process]) -> list[int]:
    if victim == "jvm":
        return [each.pid for each in found if each.is_java]
    if victim == "executor":
        return [each.pid for each in found if each.is_executor]
    python = [each for each in found if each.is_python_daemon]
    java = {each.pid for each in found if each.is_java}
    daemons = {each.pid for each in python if each.parent in java}
    if victim == "daemon":
        return list(daemons)
    return [each.pid for each in python if each.parent in daemons]


def end_session(leader: int) -> None:
    """Kill what is left of a session."""
    for each in of_sessions({leader}):
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
