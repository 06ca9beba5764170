"""Runs a stream in a process of its own, kills parts of it with SIGKILL, starts it again, and compares the results."""

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
"""Plain `local[2]` would give up with the first task that fails."""
PATIENCE = 600.0
"""Seconds without a new batch after which a stream counts as stuck."""
ENDS_ALL: tuple[Victim, ...] = ("driver", "jvm")
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Kill:
    victim: Victim
    after: int
    """When so many batches are committed."""
    delay: float
    """Seconds from then on; from the start of the process, if it was so far already."""


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
    """Kills all over the stream, at times that the seed decides, all of them before its end."""
    random = Random(f"{scenario}/{seed}")
    last = SCENARIOS[scenario].files - 3
    kills: list[Kill] = []
    for number, victim in enumerate(victims):
        earliest = 1 + number * last // len(victims)
        after = random.randint(earliest, max(earliest, (number + 1) * last // len(victims)))
        kill = Kill(victim, after, random.uniform(0.0, 1.2))
        if kills and kills[-1].victim in ENDS_ALL and random.random() < 0.3:
            kill = Kill(victim, kills[-1].after, random.uniform(3.0, 9.0))  # while the stream recovers from the last
        kills.append(kill)
    return kills


def chosen_victims(scenario: str, seed: int, kills: int) -> list[Victim]:
    """So many of the kinds that there are, beginning with another one for every scenario."""
    known = SCENARIOS[scenario].victims
    first = list(SCENARIOS).index(scenario) + seed
    return [known[(first + number) % len(known)] for number in range(kills)]


def run(
    scenario: str, seed: int, place: Path, kills: Sequence[Kill], cluster: tuple[str, Path] | None = None
) -> Verdict:
    """The whole of it in an empty folder; `cluster` is the address of one and where its files are."""
    verdict, begin = Verdict(scenario, seed), time.monotonic()
    about = SCENARIOS[scenario]
    for side in ("left", "right"):
        write_feed(place / side, f"{scenario}-{side}", about.files, about.rows)
    try:
        _disturb(verdict, about, place, kills, cluster)
        _judge(verdict, about, place)
    except StreamError as failure:
        verdict.problem = str(failure)
    verdict.seconds = time.monotonic() - begin
    return verdict


class StreamError(Exception):
    """The stream could not go on."""


def _disturb(
    verdict: Verdict, about: Scenario, place: Path, kills: Sequence[Kill], cluster: tuple[str, Path] | None
) -> None:
    random = Random(f"{verdict.scenario}/{verdict.seed}/victims")
    waiting = list(kills)
    hosts = [place / "tmp"] if cluster is None else sorted(cluster[1].glob("worker-*/"))
    spoiler = copies.Spoiler(hosts, random)
    while not (place / "undisturbed" / "told.json").exists():
        verdict.starts += 1
        killed = len(verdict.kills)
        take_back_unplanned(place / "disturbed" / "checkpoint")
        with _started(verdict, place, cluster) as process:
            _follow(verdict, process, place, waiting, spoiler if about.copies else None, random, cluster)
        if process.returncode != 0 and len(verdict.kills) == killed:
            raise StreamError(f"start {verdict.starts} failed by itself:\n{_log(place, verdict.starts)[-3000:]}")
    if waiting:
        raise StreamError(f"the stream ended before {waiting}")
    verdict.copies = spoiler.seen
    if about.copies and not spoiler.seen:
        raise StreamError("no copies of values were there, so none were tried")


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
    waiting: list[Kill],
    spoiler: copies.Spoiler | None,
    random: Random,
    cluster: tuple[str, Path] | None,
) -> None:
    """Watch a process until it ends, and kill what is to be killed meanwhile."""
    due: float | None = None
    seen, since = -1, time.monotonic()
    while process.poll() is None:
        time.sleep(_LOOK_SECONDS)
        now, done = time.monotonic(), _committed(place)
        if done != seen:
            seen, since = done, now
        if now - since > PATIENCE:
            raise StreamError(f"stuck after {done} batches:\n{_log(place, verdict.starts)[-3000:]}")
        if spoiler is not None:
            spoiler.look()
        if not waiting or done < waiting[0].after:
            continue
        due = now + waiting[0].delay if due is None else due
        if now < due:
            continue
        if processes.kill(waiting[0].victim, process.pid, None if cluster is None else cluster[1], random):
            verdict.kills.append(waiting.pop(0))
            due = None
            if spoiler is not None:
                spoiler.spoil()
            if verdict.kills[-1].victim in ENDS_ALL:
                with suppress(subprocess.TimeoutExpired):  # without its JVM, a driver ends with an error
                    process.wait(timeout=60)
                return


def _committed(place: Path) -> int:
    """Of both runs: the undisturbed one makes progress, too."""
    return sum(committed(place / run / "checkpoint") for run in RUNS)


def _log(place: Path, start: int) -> str:
    return (place / f"start-{start}.log").read_text(errors="replace")


def _judge(verdict: Verdict, about: Scenario, place: Path) -> None:
    told = {run: json.loads((place / run / "told.json").read_text()) for run in RUNS}
    disturbed, undisturbed = (batches(place / run / "checkpoint") for run in RUNS)
    if disturbed != undisturbed:
        raise StreamError(f"Spark made other batches, {disturbed}, and {undisturbed} undisturbed")
    counters = {
        run: {name: value for name, value in each["counters"].items() if name not in about.uncertain}
        for run, each in told.items()
    }
    if counters["disturbed"] != counters["undisturbed"]:
        raise StreamError(f"counters are {counters['disturbed']}, and {counters['undisturbed']} undisturbed")
    if about.copies and not about.cluster and told["disturbed"]["misses"] <= SHARDS:
        raise StreamError("shards stayed with their workers, so no copies were read")
    for run, each in told.items():
        missing = [name for name in about.must_count if not each["counters"][name]]
        if missing:
            raise StreamError(f"{', '.join(missing)} of the {run} run are 0, so this shows nothing")
    verdict.rows, problem = difference(place / "disturbed", place / "undisturbed", about.only, about.rounded)
    if problem is not None:
        raise StreamError(problem)
