"""What the example computes, recomputed row by row; and its commands, as processes of their own."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SIZE, SLIDE = timedelta(minutes=15), timedelta(minutes=5)
Ride = tuple[datetime, str, float]
Answers = dict[tuple[datetime, str], tuple[int, float]]


def answers(rides: Iterable[Ride]) -> Answers:
    """Trips and mean fare by the start of the window and the route."""
    found: dict[tuple[datetime, str], list[float]] = defaultdict(list)
    for pickup, route, fare in rides:
        start = pickup - (pickup - EPOCH) % SLIDE
        while start > pickup - SIZE:
            found[start, route].append(fare)
            start -= SLIDE
    return {place: (len(fares), math.fsum(fares) / len(fares)) for place, fares in found.items()}


def keyed(rows: Iterable[Any]) -> Answers:
    """Rows of results; no window and route may be there twice."""
    found: Answers = {}
    for row in rows:
        start = row["window"]["start"]
        start = start.astimezone(timezone.utc)  # Spark's rows have naive times in the zone of this process
        place = (start, row["route"])
        assert place not in found, place
        found[place] = (row["trips"], row["mean"])
    return found


def assert_same(found: Answers, expected: Answers) -> None:
    assert found.keys() == expected.keys()
    for place, (trips, mean) in expected.items():
        assert found[place][0] == trips, place
        assert math.isclose(found[place][1], mean, rel_tol=1e-9), place


def forget_last_commit(checkpoint: Path) -> None:
    """The checkpoint of a stream that was killed between the write of its last batch of records and its commit.

    A batch without records that followed, since the watermark had moved, has not been planned then.
    """
    offsets, commits = checkpoint / "offsets", checkpoint / "commits"
    planned = sorted((path for path in offsets.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    ends = [path.read_text().splitlines()[-1] for path in planned]
    last = next(number for number in reversed(range(len(ends))) if number == 0 or ends[number] != ends[number - 1])
    for number in range(last, len(ends)):
        for folder, name in ((commits, str(number)), (offsets, str(number))):
            if folder == commits or number > last:
                (folder / name).unlink(missing_ok=True)
                (folder / f".{name}.crc").unlink(missing_ok=True)


def submit(options: Sequence[str], *arguments: str, log: Path, **environment: str) -> subprocess.Popen[bytes]:
    """The example by spark-submit. In a group of its own: Spark's JVM and its workers can be killed with it."""
    program = Path(sys.executable).with_name("spark-submit")
    with log.open("ab") as file:
        return subprocess.Popen(
            [str(program), *options, "examples/pipeline_kafka.py", *arguments],
            cwd=ROOT,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")} | environment,
        )
