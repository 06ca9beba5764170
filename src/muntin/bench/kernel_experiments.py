"""Runs SPRINGALD's experiments: measures, shows, writes and draws them, for `muntin bench kernel`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from muntin.bench.kernel_figures import FULL, QUICK, figures, measured, records, targets
from muntin.bench.kernel_figures_plot import draw
from muntin.bench.kernel_stream import Sources
from muntin.bench.report import show, write
from muntin.spark.memory import keep_freed_memory

NAME = "kernel-figures"


def experiments(out: Path, quick: bool = False) -> int:
    """Measure, show and write; 0 if every target is met."""
    keep_freed_memory()
    console = Console()
    scale = QUICK if quick else FULL
    all_figures = figures(scale)
    values = {}
    with Sources(2) as sources, Progress(console=console, transient=True) as bars:
        task = bars.add_task("", total=len(all_figures) + 1)
        for figure in all_figures:
            bars.update(task, description=f"figure {figure.number}: {figure.title}")
            values[figure.number] = measured(figure, sources, scale.rounds)
            bars.advance(task)
        bars.update(task, description="targets")
        goals = targets(scale, sources)
    found = [*goals, *records(all_figures, values)]
    show(found, "SPRINGALD's experiments on the CPU, tuples per second", console)
    write(found, out / f"{NAME}.json")
    draw(all_figures, values, out / f"{NAME}.png")
    console.print(f"\n{out / NAME}.json and {out / NAME}.png")
    return 0 if all(record.meets is not False for record in found) else 1
