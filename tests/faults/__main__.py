"""`make faults`: kills over all options and all window models, with a table of the verdicts.

python -m tests.faults                      everything
python -m tests.faults session --seed 7     one scenario, with the kills of that seed
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
        console.print("faults: this needs /proc to find processes.")
        return 2
    console.print(f"Seed {arguments.seed}.")
    with _folder(arguments.keep) as place, ExitStack() as resources:
        verdicts = []
        two_workers = None
        for name in arguments.scenarios or SCENARIOS:
            folder = place / name
            folder.mkdir()
            if SCENARIOS[name].cluster and two_workers is None:
                cluster_folder = place / "two-workers"
                cluster_folder.mkdir()
                two_workers = resources.enter_context(cluster(cluster_folder)), cluster_folder
            victims = harness.chosen_victims(name, arguments.seed, arguments.kills)
            kills = harness.planned(name, arguments.seed, victims)
            target = two_workers if SCENARIOS[name].cluster else None
            with console.status(name):
                verdict = harness.run(name, arguments.seed, folder, kills, target)
            verdicts.append(verdict)
            _print(verdict)
            if verdict.problem is None and not arguments.keep:
                rmtree(folder)
    return _summary(verdicts, arguments.seed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=", ".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2), "big"), help="determines the kills")
    parser.add_argument("--kills", type=int, default=2, help="kills per scenario (2)")
    parser.add_argument(
        "--keep", type=Path, help="a new folder for all files; without it, only those of failures are kept"
    )
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
        console.print(f"The files of failed scenarios are in {place}.")
    else:
        place.rmdir()


def _print(verdict: harness.Verdict) -> None:
    kills = ", ".join(f"{kill.victim} after {kill.after}+{kill.delay:.1f} s" for kill in verdict.kills)
    result = "same" if verdict.problem is None else f"DIFFERS: {verdict.problem}"
    console.print(f"{verdict.scenario} (seed {verdict.seed}): {kills}; {verdict.seconds:.0f} s: {result}", markup=False)


def _summary(verdicts: list[harness.Verdict], seed: int) -> int:
    table = Table("scenario", "victims", "kills", "starts", "rows", "copies", "seconds", "verdict")
    for verdict in verdicts:
        victims = " ".join(kill.victim for kill in verdict.kills)
        numbers = (len(verdict.kills), verdict.starts, verdict.rows, verdict.copies, round(verdict.seconds))
        table.add_row(verdict.scenario, victims, *map(str, numbers), "same" if verdict.problem is None else "DIFFERS")
    console.print(table)
    differing = [verdict.scenario for verdict in verdicts if verdict.problem is not None]
    kills = sum(len(verdict.kills) for verdict in verdicts)
    minutes = sum(verdict.seconds for verdict in verdicts) / 60
    console.print(f"{kills} kills in {minutes:.1f} minutes, seed {seed}.")
    if differing:
        console.print(f"Not the same: {', '.join(differing)}.")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
