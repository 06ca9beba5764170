"""How often intervals hold: `.shed()` and `.approximate()` over distributions, windows, groups, filters and rates.

Every setting has thousands of windows whose exact answers are known. It counts in how many of them the interval
contains the exact answer, for every aggregate that has one, at three confidences. A setting fails if the share is more
than three standard errors below the confidence. No setting is left out because it fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from muntin.bench.coverage_core import AGGREGATES, CONFIDENCES, MADE, Covered, Setting, Way, measure, worst
from muntin.bench.coverage_pairs import measure_pairs
from muntin.bench.coverage_plot import draw

SEED = 0
SHEDDING: tuple[Way, ...] = ("concept", "uniform")


@dataclass(frozen=True)
class Scale:
    """The size of the run."""

    windows: int
    """Of each setting."""
    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    some: tuple[str, ...]
    """The distributions in which panes, groups, filters and arrival vary."""


FULL = Scale(5000, (20, 200, 5000), (0.5, 0.9, 0.98, 0.999), tuple(MADE))
QUICK = Scale(1000, (20, 200), (0.9,), ("lognormal 2", "99 % zeros"))
BRIEF = Scale(300, (20,), (0.9,), ("lognormal 2",))
"""For the test suite."""


def grid(scale: Scale) -> Iterator[Setting]:
    """All settings: distributions by sizes by rates by ways, and everything else at windows of 200 rows."""
    for way in SHEDDING:
        for made in MADE:
            for size in scale.sizes:
                yield from (Setting(made, size, rate, way) for rate in scale.rates)
        for made in scale.some:
            for rate in scale.rates[:3]:
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
    for made in MADE:
        for size in scale.sizes:
            for rate in (0.5, 0.9):
                yield Setting(made, size, rate, "approximate")
                yield Setting(made, size, rate, "approximate all")


def run(out: Path, quick: bool = False) -> int:
    """Measure, show, write and draw; 0 if every interval holds."""
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        found = covered(QUICK if quick else FULL, bars)
    out.mkdir(parents=True, exist_ok=True)
    (out / "coverage.json").write_text(json.dumps(list(map(entry, found)), indent=1) + "\n")
    draw(found, out / "coverage.png")
    console.print(table(found))
    failed = [each for each in found if not each.holds]
    for each in failed:
        console.print(f"[red]{each.setting.title}: {each.aggregate} at {each.confidence}: {each.share:.3f}[/]")
    console.print(f"\n{len(found):,} results, {len(failed)} below what they promise")
    console.print(f"{out / 'coverage'}.json and {out / 'coverage'}.png")
    return 1 if failed else 0


def covered(scale: Scale, bars: Progress | None = None) -> list[Covered]:
    settings = list(grid(scale))
    task = None if bars is None else bars.add_task("", total=len(settings) + len(MADE))
    found: list[Covered] = []
    for setting in settings:
        if bars is not None and task is not None:
            bars.update(task, description=setting.title)
        found += measure(setting, scale.windows, SEED)
        if bars is not None and task is not None:
            bars.advance(task)
    for made in MADE:
        if bars is not None and task is not None:
            bars.update(task, description=f"pairs of a join, {made}")
        found += measure_pairs(made, scale.windows, SEED)
        if bars is not None and task is not None:
            bars.advance(task)
    return found


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
    for name in [*AGGREGATES, "pairs that count"]:
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
