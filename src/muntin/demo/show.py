"""The output of the demo, which fits 80 columns."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.syntax import Syntax
from rich.table import Table

from muntin.demo import queries
from muntin.demo.compare import Comparison
from muntin.demo.follow import Run, Standing
from muntin.demo.worst import CITIES, WorstDay
from muntin.durations import describe
from muntin.windows import TimeWindow

_LONGEST_BAR = 10


@dataclass(frozen=True)
class Race:
    """One window: the run of plain Spark, and the comparison of the results."""

    window: TimeWindow
    spark: Run
    comparison: Comparison


def welcome(console: Console, rows: int, files: int) -> None:
    body = inspect.getsource(queries.with_muntin).partition("\n")[2]
    console.print(
        Panel(
            Group(
                f"[bold]{rows:,} flights[/] from New York in 2013, as a stream of {files} monthly files. They come in "
                "the order of their reports, a delayed flight only when it leaves. So the stream is out of order, as "
                "real streams are.",
                "",
                "One query computes three sliding windows per airport:",
                *(f"  [cyan]{window.title:>7}[/] every {describe(window.slide)}" for window in queries.WINDOWS),
                "",
                Syntax(textwrap.dedent(body).rstrip(), "python", background_color="default"),
            ),
            title="[bold]muntin demo[/]",
            border_style="cyan",
            padding=(1, 2),
        )
    )


@contextmanager
def progress(console: Console, rows: int) -> Iterator[Callable[[str], Callable[[Standing], None]]]:
    """A live display. Yields a function that adds a query and returns the callback for its progress."""
    display = Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=6),
        TextColumn("{task.fields[standing]}"),
        TextColumn("{task.elapsed:.0f} s", justify="right"),
        console=console,
    )

    def add(title: str) -> Callable[[Standing], None]:
        # One more than the rows: when all rows are read, the last batch still has to run.
        task = display.add_task(title, total=rows + 1, standing="[dim]starting[/]")

        def show(standing: Standing) -> None:
            done = standing.rows if standing.running else rows + 1
            display.update(task, completed=done, standing=_standing(standing))
            if not standing.running:
                display.stop_task(task)

        return show

    with display:
        yield add


def _standing(standing: Standing) -> str:
    if not standing.batches:
        return "[dim]warming up in the first batch[/]"
    late = "" if standing.late is None else f" [dim]·[/] {standing.late} late"
    return (
        f"{standing.batches:>2} batches [dim]·[/] {standing.closed:>7,} closed "
        f"[dim]·[/] {standing.state_bytes / 1000:>5,.0f} KB{late}"
    )


def race(console: Console, ours: Run, races: list[Race]) -> None:
    """Print the times of both systems, and whether their results agree."""
    agree = all(race.comparison.agrees for race in races)
    compared = sum(race.comparison.rows for race in races)
    table = _table("The same answers, twice")
    table.add_column("query", no_wrap=True)
    for title in ("copies", "results", "equal", "steady", "total"):
        table.add_column(title, justify="right", no_wrap=True)
    for race in races:
        table.add_row(
            f"Spark   {describe(race.window.size)} every {describe(race.window.slide)}",
            f"{race.window.copies}",
            f"{race.comparison.rows:,}",
            _mark(race.comparison.agrees),
            f"{race.spark.steady:.1f} s",
            f"{race.spark.total:.1f} s",
        )
    table.add_section()
    steady, total = sum(race.spark.steady for race in races), sum(race.spark.total for race in races)
    copies = sum(race.window.copies for race in races)
    table.add_row("Spark   all three", f"{copies}", f"{compared:,}", "", f"{steady:.1f} s", f"{total:.1f} s")
    table.add_row(
        "Muntin  all three",
        "1",
        f"{compared:,}",
        _mark(agree),
        f"{ours.steady:.1f} s",
        f"{ours.total:.1f} s",
        style="bold cyan",
    )
    console.print(table)
    console.print(_verdict(races, agree, compared))
    console.print(_conclusion(ours, races, steady))
    console.print(
        "[dim]Copies: how often a row is processed. Total: from start to end of a query. Steady: its batches after the "
        "first, in which Java and the Python workers warm up. Muntin ran first, with a cold Java. Spark's queries "
        "ran one after the other, each with Spark's default state store. Both had the same number of partitions.[/]"
    )


def _mark(agrees: bool) -> str:
    return "[green]✓[/]" if agrees else "[bold red]✗[/]"


def _verdict(races: list[Race], agree: bool, compared: int) -> str:
    if agree:
        return f"[green]✓[/] Compared row by row: all {compared:,} results are equal."
    return "\n".join(
        f"[bold red]✗ The answers for {race.window.title} differ:[/] Muntin has {race.comparison.rows:,} rows, "
        f"Spark {race.comparison.other_rows:,}, and {race.comparison.same:,} are the same."
        for race in races
        if not race.comparison.agrees
    )


def _conclusion(ours: Run, races: list[Race], spark_steady: float) -> str:
    """The result in words, also where Spark is faster."""
    speedup = spark_steady / ours.steady
    sentences = [
        f"[bold]Muntin was {speedup:.1f} times as fast[/]" if speedup >= 1 else "[bold]Plain Spark was faster here[/]"
    ]
    sentences.append("in the steady state, for all three.")
    faster = [race.window.title for race in races if race.spark.steady < ours.steady]
    if faster and speedup >= 1:
        sentences.append(
            f"For {' or '.join(faster)} alone Spark is faster: with so few rows, Muntin's time is mostly the "
            "fixed price of its batches."
        )
    sentences.append(
        "Spark copies a row into every window that contains it, and pays for each copy; Muntin never does."
    )
    return " ".join(sentences)


def worst_days(console: Console, days: list[WorstDay]) -> None:
    table = _table("The worst 24 hours of 2013")
    table.add_column("airport", style="bold", no_wrap=True)
    for title in ("from", "cancelled"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("mean delay", no_wrap=True)
    for title in ("its week", "longest"):
        table.add_column(title, justify="right", no_wrap=True)
    longest_delay = max((day.mean_delay for day in days), default=1)
    previous = ""
    for day in days:
        if previous not in ("", day.airport):
            table.add_section()
        bar = "━" * max(1, round(day.mean_delay / longest_delay * _LONGEST_BAR))
        table.add_row(
            CITIES.get(day.airport, day.airport) if day.airport != previous else "",
            f"{day.start.day} {day.start:%b %H:%M}",
            f"{day.cancelled_share:.0%}",
            f"[red]{bar:<{_LONGEST_BAR}}[/] {day.mean_delay:3.0f} min",
            f"{day.week_mean:.0f} min",
            f"{day.worst_delay // 60}h {day.worst_delay % 60:02}m",
        )
        previous = day.airport
    console.print(table)


def _table(title: str) -> Table:
    return Table(box=box.SIMPLE_HEAD, title=f"\n{title}", title_style="bold", header_style="dim", padding=(0, 1, 0, 0))
