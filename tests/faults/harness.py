"""Runs a stream in a separate process, kills parts of it with SIGKILL, restarts it, and compares the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.faults import copies, processes
from tests.faults.batches import batches, committed, take_back_unplanned
from tests.faults.comparison import difference
from tests.faults.feeds import write_feed
from tests.faults.scenarios import RUNS, SCENARIOS, SHARDS, Scenario, Victim

SCRIPT = "tests.faults.stream_script"
LOCAL_MASTER = "local[2,4]"
"""Plain `local[2]` would give up when the first task fails."""
PATIENCE = 600.0
"""Seconds without a new batch after which a stream is stuck."""
ENDS_ALL: tuple[Victim, ...] = ("driver", "jvm")
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Kill:
    victim: Victim
    after: int
    """Committed batches before the kill."""
    delay: float
    """Seconds after that, or after the start of the process if that is later."""


@dataclass
class Verdict:
    scenario: str
    seed: int
    kills: list[Kill] = field(default_factory=list)
    starts: int = 0
    seconds: float = 0.0
    rows: int = 0
    copies: int = 0
    problem: str | None = None


def planned(scenario: str, seed: int, victims: Sequence[Victim]) -> list[Kill]:
    """Kills at random times over the whole stream, before its end. The seed determines them."""
    random = Random(f"{scenario}/{seed}")
    last = SCENARIOS[scenario].files - 3
    kills: list[Kill] = []
    for number, victim in enumerate(victims):
        earliest = 1 + number * last // len(victims)
        after = random.randint(earliest, max(earliest, (number + 1) * last // len(victims)))
        kill = Kill(victim, after, random.uniform(0.0, 1.2))
        if kills and kills[-1].victim in ENDS_ALL and random.random() < 0.3:
            # While the stream recovers from the last kill.
            kill = Kill(victim, kills[-1].after, random.uniform(3.0, 9.0))
        kills.append(kill)
    return kills


def chosen_victims(scenario: str, seed: int, kills: int) -> list[Victim]:
    """`kills` victims in turn, from a different start for every scenario and seed."""
    victims = SCENARIOS[scenario].victims
    first = list(SCENARIOS).index(scenario) + seed
    return [victims[(first + number) % len(victims)] for number in range(kills)]


def run(
    scenario: str, seed: int, place: Path, kills: Sequence[Kill], cluster: tuple[str, Path] | None = None
) -> Verdict:
    """Run, kill and judge a scenario in an empty folder. `cluster` is the address and the folder of a cluster."""
    verdict, start = Verdict(scenario, seed), time.monotonic()
    details = SCENARIOS[scenario]
    for side in ("left", "right"):
        write_feed(place / side, f"{scenario}-{side}", details.files, details.rows)
    try:
        _disturb(verdict, details, place, kills, cluster)
        _judge(verdict, details, place)
    except StreamError as failure:
        verdict.problem = str(failure)
    verdict.seconds = time.monotonic() - start
    return verdict


class StreamError(Exception):
    """The stream cannot continue, or its results are wrong."""


def _disturb(
    verdict: Verdict, scenario: Scenario, place: Path, kills: Sequence[Kill], cluster: tuple[str, Path] | None
) -> None:
    random = Random(f"{verdict.scenario}/{verdict.seed}/victims")
    pending = list(kills)
    hosts = [place / "tmp"] if cluster is None else sorted(cluster[1].glob("worker-*/"))
    spoiler = copies.Spoiler(hosts, random)
    while not (place / "undisturbed" / "report.json").exists():
        verdict.starts += 1
        killed = len(verdict.kills)
        take_back_unplanned(place / "disturbed" / "checkpoint")
        with _started(verdict, place, cluster) as process:
            _follow(verdict, process, place, pending, spoiler if scenario.copies else None, random, cluster)
        if process.returncode != 0 and len(verdict.kills) == killed:
            raise StreamError(f"start {verdict.starts} failed without a kill:\n{_log(place, verdict.starts)[-3000:]}")
    if pending:
        raise StreamError(f"the stream ended before {pending}")
    verdict.copies = spoiler.seen
    if scenario.copies and not spoiler.seen:
        raise StreamError("there were no copies of values, so none were damaged")


@contextmanager
def _started(verdict: Verdict, place: Path, cluster: tuple[str, Path] | None) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYTEST_"))}
    (place / "tmp").mkdir(exist_ok=True)
    environment |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(place / "spark"),
        "TMPDIR": str(place / "tmp"),
        "FAULTS_MASTER": LOCAL_MASTER if cluster is None else cluster[0],
    }
    command = [sys.executable, "-m", SCRIPT, verdict.scenario, str(place)]
    with (place / f"start-{verdict.starts}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=place, start_new_session=True)
    try:
        yield process
    finally:
        processes.end_session(process.pid)
        process.wait()


def _follow(
    verdict: Verdict,
    process: subprocess.Popen[bytes],
    place: Path,
    pending: list[Kill],
    spoiler: copies.Spoiler | None,
    random: Random,
    cluster: tuple[str, Path] | None,
) -> None:
    """Watch a process until it ends, and kill the victims when they are due."""
    due: float | None = None
    last_count, last_change = -1, time.monotonic()
    while process.poll() is None:
        time.sleep(_LOOK_SECONDS)
        now, count = time.monotonic(), _committed(place)
        if count != last_count:
            last_count, last_change = count, now
        if now - last_change > PATIENCE:
            raise StreamError(f"stuck after {count} batches:\n{_log(place, verdict.starts)[-3000:]}")
        if spoiler is not None:
            spoiler.look()
        if not pending or count < pending[0].after:
            continue
        due = now + pending[0].delay if due is None else due
        if now < due:
            continue
        if processes.kill(pending[0].victim, process.pid, None if cluster is None else cluster[1], random):
            verdict.kills.append(pending.pop(0))
            due = None
            if spoiler is not None:
                spoiler.spoil()
            if verdict.kills[-1].victim in ENDS_ALL:
                with suppress(subprocess.TimeoutExpired):  # a driver ends with an error when its JVM is gone
                    process.wait(timeout=60)
                return


def _committed(place: Path) -> int:
    """Batches of both runs, since the undisturbed one makes progress, too."""
    return sum(committed(place / run / "checkpoint") for run in RUNS)


def _log(place: Path, start: int) -> str:
    return (place / f"start-{start}.log").read_text(errors="replace")


def _judge(verdict: Verdict, scenario: Scenario, place: Path) -> None:
    reports = {run: json.loads((place / run / "report.json").read_text()) for run in RUNS}
    disturbed, undisturbed = (batches(place / run / "checkpoint") for run in RUNS)
    if disturbed != undisturbed:
        raise StreamError(f"Spark made other batches, {disturbed}, and {undisturbed} undisturbed")
    counters = {
        run: {name: value for name, value in report["counters"].items() if name not in scenario.uncertain}
        for run, report in reports.items()
    }
    if counters["disturbed"] != counters["undisturbed"]:
        raise StreamError(f"counters are {counters['disturbed']}, and {counters['undisturbed']} undisturbed")
    if scenario.copies and not scenario.cluster and reports["disturbed"]["misses"] <= SHARDS:
        raise StreamError("shards stayed with their workers, so no copies were read")
    for run, report in reports.items():
        missing = [name for name in scenario.must_count if not report["counters"][name]]
        if missing:
            raise StreamError(f"{', '.join(missing)} of the {run} run are 0, so the scenario shows nothing")
    verdict.rows, problem = difference(place / "disturbed", place / "undisturbed", scenario.only, scenario.rounded)
    if problem is not None:
        raise StreamError(problem)
