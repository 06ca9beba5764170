"""Compare the speed of two revisions, without Spark: `python scripts/compare_speed.py OLD_REVISION [NEW_REVISION]`.

Both run in turn, workload by workload, each in a new process per round. Of every step of a workload the fastest run in
a round counts, since other programs only add time. The figures are medians over the rounds. What is measured is the
time on the processor, unless `--clock wall` asks for the time that passes; "answer" is always the latter.

Workloads with a figure over the limit run again in as many rounds. Exits with 1 if one is still more than 5 % slower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ROOT = Path(__file__).parents[1]
WORKER = Path(__file__).with_name("speed_workloads.py")
TOLERANCE = 0.05
RUNS = 8
"""How often each revision runs a workload in a round, at most."""
SECONDS = 3.5
"""After so many seconds of both revisions, a workload is not run again in this round."""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
"""Freed memory stays with the process: otherwise, when it is given back makes more of a difference than the code."""


class Worker:
    """A process that runs the workloads with the code of one tree."""

    def __init__(self, tree: Path) -> None:
        environment = {**os.environ, **MEMORY, "PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        begun = self._read()
        self.workloads: list[str] = begun["workloads"]
        assert Path(begun["muntin"]).is_relative_to(tree), f"{begun['muntin']} is not in {tree}."

    def run(self, workload: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(workload + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("A worker has ended; its error is above.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass
class Compared:
    """One figure: seconds of the mean step, by rounds."""

    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        return [new / old for old, new in zip(self.old, self.new, strict=True)]

    @property
    def ratio(self) -> float:
        """The median over the rounds: in each, both revisions had the same load beside them."""
        return median(self.ratios)

    @property
    def within(self) -> bool:
        return self.ratio <= 1 + TOLERANCE


@contextmanager
def checked_out(revision: str, folder: Path) -> Iterator[Path]:
    """A worktree of a revision, as long as it is needed."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), revision], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def fastest(runs: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """The mean step of each figure, from the fastest run of every step."""
    return {
        name: sum(min(steps) for steps in zip(*(run[name] for run in runs), strict=True)) / len(runs[0][name])
        for name in runs[0]
    }


def run_in_turn(workers: Sequence[Worker], workload: str, clock: str) -> list[dict[str, float]]:
    """The figures of one workload for each worker."""
    runs: list[list[dict[str, Any]]] = [[] for _ in workers]
    begun = perf_counter()
    turns = list(zip(workers, runs, strict=True))
    while len(runs[0]) < RUNS and (not runs[0] or perf_counter() - begun < SECONDS):
        for worker, its_runs in turns:
            its_runs.append(worker.run(workload))
        turns.reverse()
    results = {run["results"] for its_runs in runs for run in its_runs}
    if len(results) > 1:
        Console(stderr=True).print(f"{workload}: not all runs have as many results: {sorted(results)}")
    return [fastest([run[clock] for run in its_runs]) for its_runs in runs]


Figures = dict[str, dict[str, Compared]]
"""By workload and step."""


def compare(trees: Sequence[Path], rounds: int, only: str, clock: str) -> Figures:
    """All figures. Workloads with one over the limit run again in as many rounds, since it may be chance."""
    figures: Figures = {}
    run_rounds(figures, trees, rounds, only, clock)
    again = {name for name, steps in figures.items() if not all(figure.within for figure in steps.values())}
    if again:
        run_rounds(figures, trees, rounds, only, clock, again)
    return figures


def run_rounds(
    figures: Figures, trees: Sequence[Path], rounds: int, only: str, clock: str, again: set[str] | None = None
) -> None:
    """Run workloads in turn, and add what is found to the figures."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        for number in range(rounds):
            old, new = workers = [Worker(tree) for tree in trees]
            names = [name for name in old.workloads if only in name and (again is None or name in again)]
            progress.update(task, total=rounds * len(names))
            for place, name in enumerate(names):
                progress.update(task, description=f"{'once more, ' if again else ''}round {number + 1}, {name}")
                # The order alternates from round to round, and from workload to workload.
                both = workers if (number + place) % 2 == 0 else workers[::-1]
                found = dict(zip(map(id, both), run_in_turn(both, name, clock), strict=True))
                for step, seconds in found[id(old)].items():
                    figure = figures.setdefault(name, {}).setdefault(step, Compared())
                    figure.old.append(seconds)
                    figure.new.append(found[id(new)][step])
                progress.advance(task)
            for worker in workers:
                worker.close()


def shown(figures: Mapping[str, Compared], old: str, new: str) -> Table:
    table = Table(title=f"Milliseconds per step, {old} and {new}")
    for heading in ("workload", "old", "new", "new / old", "rounds", "within 5 %"):
        table.add_column(heading, justify="left" if heading == "workload" else "right", no_wrap=True)
    for name, figure in figures.items():
        table.add_row(
            name,
            f"{median(figure.old) * 1e3:,.3f}",
            f"{median(figure.new) * 1e3:,.3f}",
            f"{figure.ratio:.3f}",
            f"{min(figure.ratios):.2f} to {max(figure.ratios):.2f}",
            "yes" if figure.within else "[bold red]no[/]",
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the speed of two revisions, without Spark.")
    parser.add_argument("old", metavar="OLD_REVISION")
    parser.add_argument("new", metavar="NEW_REVISION", nargs="?", default="HEAD")
    parser.add_argument("--rounds", type=int, default=5, help="how often both run (default: %(default)s)")
    parser.add_argument("--only", metavar="NAME", default="", help="only workloads with this in their name")
    parser.add_argument("--clock", choices=["cpu", "wall"], default="cpu", help="processor time, or time that passes")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        revisions = {"old": given.old, "new": given.new}
        trees = [stack.enter_context(checked_out(revision, folder / name)) for name, revision in revisions.items()]
        found = compare(trees, given.rounds, given.only, given.clock)
    figures = {f"{name}: {step}": figure for name, steps in found.items() for step, figure in steps.items()}
    if not figures:
        parser.error(f"no workload has {given.only!r} in its name")
    # Where nothing limits the width, as in a file, columns are as wide as they need to be.
    console = Console() if sys.stdout.isatty() else Console(width=120)
    console.print(shown(figures, given.old, given.new))
    return int(not all(figure.within for figure in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
