"""How often intervals hold: `.shed()` and `.approximate()` over distributions, windows, groups, filters and rates.

Every setting has thousands of windows whose exact answers are known. It counts in how many of them the interval
contains the exact answer, for every aggregate that has one, at three confidences. A setting fails if the share is more
than three standard errors below the confidence. No setting is left out because it fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from muntin import __version__
from muntin.bench.coverage_core import AGGREGATES, CONFIDENCES, MADE, PAIRS, Covered, Setting, Way, measure, worst
from muntin.bench.coverage_pairs import ROWS, measure_pairs, shed_share
from muntin.bench.coverage_plot import draw

SEED = 0
SHEDDING: tuple[Way, ...] = ("concept", "uniform", "source")
PROCESSES = 2


@dataclass(frozen=True)
class Scale:
    """The size of the run."""

    windows: int
    """Of each setting."""
    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    some: tuple[str, ...]
    """The distributions in which panes, groups, filters and arrival vary: those that are hardest in other ways."""


FULL = Scale(
    5000,
    (20, 200, 5000),
    (0.5, 0.9, 0.98, 0.999),
    ("normal", "lognormal 2", "Pareto 1.5", "99 % zeros", "duplicates", "tied integers"),
)
QUICK = Scale(1000, (20, 200), (0.9,), ("lognormal 2", "99 % zeros"))
BRIEF = Scale(300, (20,), (0.9,), ("lognormal 2",))
"""For the test suite."""


def grid(scale: Scale) -> Iterator[Setting]:
    """All settings, small windows first: distributions by sizes by rates by ways, and everything else at 200 rows."""
    for made in MADE:
        yield Setting(made, ROWS, shed_share(), "pairs")
    for way in SHEDDING:
        for made in scale.some:
            for rate in scale.rates:
                yield Setting(made, 200, rate, way, panes=10)
                yield Setting(made, 200, rate, way, shuffled=True)
                yield Setting(made, 200, rate, way, panes=10, shuffled=True)
                yield Setting(made, 200, rate, way, groups="five")
                yield Setting(made, 200, rate, way, groups="five", panes=4, counting="half null")
                yield Setting(made, 200, rate, way, groups="zipf")
                yield Setting(made, 200, rate, way, groups="singletons")
                yield Setting(made, 200, rate, way, counting="half null")
                yield Setting(made, 200, rate, way, counting="filter of a tenth")
                yield Setting(made, 200, rate, way, counting="filter of a tenth", panes=10)
    for size in scale.sizes:
        for made in MADE:
            for way in SHEDDING:
                yield from (Setting(made, size, rate, way) for rate in scale.rates)
            for rate in (0.5, 0.9):
                yield Setting(made, size, rate, "approximate")
                yield Setting(made, size, rate, "approximate all")


def run(out: Path, quick: bool = False) -> int:
    """Measure, show, write and draw; 0 if every interval holds."""
    console = Console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    out.mkdir(parents=True, exist_ok=True)
    scale = QUICK if quick else FULL
    with Progress(*columns, console=console) as bars:
        found = covered(scale, bars, out / "coverage.jsonl")
    (out / "coverage.json").write_text(json.dumps(list(map(entry, found)), indent=1) + "\n")
    draw(found, out / "coverage.png")
    console.print(table(found))
    failed = [each for each in found if not each.holds]
    for each in failed:
        console.print(f"[red]{each.setting.title}: {each.aggregate} at {each.confidence}: {each.share:.3f}[/]")
    console.print(f"\n{len(found):,} results, {len(failed)} below what they promise")
    console.print(f"{out / 'coverage'}.json and {out / 'coverage'}.png")
    return 1 if failed else 0


def covered(
    scale: Scale, bars: Progress | None = None, log: Path | None = None, processes: int = PROCESSES
) -> list[Covered]:
    """The results of all settings, in the order of the grid.

    With a log, settings are written to it one by one. What is there already is not measured again, so that a run of
    hours can be stopped and continued.
    """
    settings = list(grid(scale))
    known = {} if log is None else _logged(log, scale)
    left = [setting for setting in settings if setting not in known]
    task = None if bars is None else bars.add_task("", total=len(settings), completed=len(settings) - len(left))
    # Processes that are spawned do not inherit threads and locks of this one.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        measured = {pool.submit(partial(measured_setting, setting, scale.windows)): setting for setting in left}
        for done in as_completed(measured):
            setting = measured[done]
            known[setting] = done.result()
            if log is not None:
                with log.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(_line(known[setting], scale)) + "\n")
            if bars is not None and task is not None:
                bars.update(task, description=setting.title, advance=1)
    return [each for setting in settings for each in known[setting]]


def measured_setting(setting: Setting, windows: int) -> list[Covered]:
    return measure_pairs(setting, windows, SEED) if setting.way == "pairs" else measure(setting, windows, SEED)


def _identity(scale: Scale) -> list[Any]:
    """Results are only comparable with those of the same version, seed and number of windows."""
    return [__version__, SEED, scale.windows]


def _line(found: Sequence[Covered], scale: Scale) -> dict[str, Any]:
    return {"of": _identity(scale), "results": [asdict(each) for each in found]}


def _logged(log: Path, scale: Scale) -> dict[Setting, list[Covered]]:
    """The settings that an earlier run has measured."""
    known: dict[Setting, list[Covered]] = {}
    if not log.exists():
        return known
    for line in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
        if line["of"] == _identity(scale):
            results = [Covered(**{**each, "setting": Setting(**each["setting"])}) for each in line["results"]]
            known[results[0].setting] = results
    return known


def entry(each: Covered) -> dict[str, object]:
    """A result as JSON."""
    numbers = {name: value for name, value in asdict(each).items() if name != "setting"}
    numbers = {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in numbers.items()}
    share = None if np.isnan(each.share) else round(each.share, 4)
    return {"setting": each.setting.title, **asdict(each.setting), **numbers, "share": share, "holds": each.holds}


def table(found: list[Covered]) -> Table:
    """The worst setting of each aggregate at each confidence."""
    shown = Table(title="Intervals: the setting in which each holds least often", title_justify="left")
    for heading in ("aggregate", "confidence", "settings", "held, least", "median width", "in"):
        shown.add_column(heading, justify="left" if heading in ("aggregate", "in") else "right")
    for name in [*AGGREGATES, PAIRS]:
        for confidence in CONFIDENCES:
            least = worst(found, name, confidence)
            given = [each for each in found if (each.aggregate, each.confidence) == (name, confidence) and each.given]
            if least is None:
                shown.add_row(name, f"{confidence:.0%}", "0", "–", "–", "there is no interval")
                continue
            widths = [each.width for each in given if not np.isnan(each.width)]
            width = f"{np.median(widths):.2g}" if widths else "one side"
            verdict = "[green]✓[/]" if all(each.holds for each in given) else "[red]✗[/]"
            share = f"{least.share:.1%} {verdict}"
            shown.add_row(name, f"{confidence:.0%}", f"{len(given):,}", share, width, least.setting.title)
    return shown
