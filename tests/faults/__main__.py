"""`make faults`: kills over all knobs and all window models, with a table of what became of them.

python -m tests.faults                      everything
python -m tests.faults session --seed 7     one scenario again, with the kills of that seed
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import rmtree

from rich.console import Console
from rich.table import Table

from tests.faults import harness, processes
from tests.faults.scenarios import SCENARIOS
from tests.spark.cluster import cluster

console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)


def main() -> int:
    arguments = _arguments()
    if not processes.CAN_SEE:
        console.print("faults: processes are found by /proc, which is not here.")
        return 2
    console.print(f"Seed {arguments.seed}.")
    with _folder(arguments.keep) as place, ExitStack() as held:
        verdicts = []
        on_cluster = None
        for name in arguments.scenarios or SCENARIOS:
            own = place / name
            own.mkdir()
            if SCENARIOS[name].cluster and on_cluster is None:
                of_cluster = place / "two-workers"
                of_cluster.mkdir()
                on_cluster = held.enter_context(cluster(of_cluster)), of_cluster
            victims = harness.chosen_victims(name, arguments.seed, arguments.kills)
            kills = harness.planned(name, arguments.seed, victims)
            where = on_cluster if SCENARIOS[name].cluster else None
            with console.status(name):
                verdict = harness.run(name, arguments.seed, own, kills, where)
            verdicts.append(verdict)
            _tell(verdict)
            if verdict.problem is None and not arguments.keep:
                rmtree(own)
    return _summary(verdicts, arguments.seed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=", ".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2), "big"), help="when kills come")
    parser.add_argument("--kills", type=int, default=2, help="in each scenario (2)")
    parser.add_argument("--keep", type=Path, help="a new folder for all files; otherwise those of failures are kept")
    arguments = parser.parse_args()
    for name in arguments.scenarios:
        if name not in SCENARIOS:
            parser.error(f"there is no scenario {name!r}; there are {', '.join(SCENARIOS)}")
    return arguments


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.resolve()
        return
    place = Path(tempfile.mkdtemp(prefix="muntin-faults-"))
    yield place
    rmtree(place / "two-workers", ignore_errors=True)
    if any(place.iterdir()):
        console.print(f"The files of what failed are in {place}.")
    else:
        place.rmdir()


def _tell(verdict: harness.Verdict) -> None:
    kills = ", ".join(f"{kill.victim} after {kill.after}+{kill.delay:.1f} s" for kill in verdict.kills)
    result = "same" if verdict.problem is None else f"DIFFERS: {verdict.problem}"
    console.print(f"{verdict.scenario} (seed {verdict.seed}): {kills}; {verdict.seconds:.0f} s: {result}", markup=False)


def _summary(verdicts: list[harness.Verdict], seed: int) -> int:
    table = Table("scenario", "victims", "kills", "starts", "rows", "copies", "seconds", "verdict")
    for each in verdicts:
        victims = " ".join(kill.victim for kill in each.kills)
        numbers = (len(each.kills), each.starts, each.rows, each.copies, round(each.seconds))
        table.add_row(each.scenario, victims, *map(str, numbers), "same" if each.problem is None else "DIFFERS")
    console.print(table)
    differing = [each.scenario for each in verdicts if each.problem is not None]
    kills = sum(len(each.kills) for each in verdicts)
    minutes = sum(each.seconds for each in verdicts) / 60
    console.print(f"{kills} kills in {minutes:.1f} minutes, seed {seed}.")
    if differing:
        console.print(f"Not the same: {', '.join(differing)}.")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
