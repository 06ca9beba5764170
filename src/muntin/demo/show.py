"""What the demo prints."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from muntin.demo import queries
from muntin.demo.compare import Comparison
from muntin.demo.follow import Run, Standing
from muntin.demo.worst import WorstDay
from muntin.durations import describe
from muntin.windows import TimeWindow

CITIES = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
_LONGEST_BAR = 16


@dataclass(frozen=True)
class Race:
    """One window: how long plain Spark took for it, and whether the answers agree."""

    window: TimeWindow
    spark: Run
    comparison: Comparison


def welcome(console: Console, rows: int, files: int) -> None:
    query = inspect.getsource(queries.with_muntin)
    windows = ", ".join(f"{describe(window.size)} every {describe(window.slide)}" for window in queries.WINDOWS)
    console.print(
        Panel(
            Group(
                f"[bold]{rows:,} flights[/] that were to leave New York in 2013, streamed in {files} monthly files in "
                "the order in which they were reported: a delayed flight comes late, so the stream is out of order.",
                f"\nOne Muntin query answers three sliding windows per airport: [bold]{windows}[/].\n",
                Syntax(query, "python", background_color="default"),
            ),
            title="[bold]muntin demo[/]",
            border_style="cyan",
            padding=(1, 2),
        )
    )


@contextmanager
def progress(console: Console, rows: int) -> Iterator[Callable[[str], Callable[[Standing], None]]]:
    """Gives a function that adds a query to the live display, and returns what to call with its standing."""
    display = Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=18),
        TextColumn("{task.fields[standing]}"),
        TimeElapsedColumn(),
        console=console,
    )

    def add(title: str) -> Callable[[Standing], None]:
        task = display.add_task(title, total=rows, standing="[dim]starting …")

        def show(standing: Standing) -> None:
            display.update(task, completed=standing.rows, standing=_standing(standing))

        return show

    with display:
        yield add


def _standing(standing: Standing) -> str:
    if not standing.batches:
        return "[dim]first batch …"
    parts = [
        f"{standing.batches:>2} batches",
        f"{standing.closed:>7,} windows closed",
        f"state {standing.state_bytes / 1000:>5,.0f} KB",
    ]
    if standing.late is not None:
        parts.append(f"{standing.late} late")
    return " [dim]·[/] ".join(parts)


def race(console: Console, ours: Run, races: list[Race]) -> None:
    """The answers and the times of both, and what the times are."""
    table = Table(title="\nThe same answer, twice", title_style="bold", header_style="dim", show_footer=True)
    spark_steady = sum(each.spark.steady for each in races)
    spark_total = sum(each.spark.total for each in races)
    table.add_column("window", footer="all three")
    table.add_column("windows hold a row", justify="right", footer=f"{sum(r.window.copies for r in races)}")
    table.add_column("results compared", justify="right", footer=f"{sum(r.comparison.rows for r in races):,}")
    table.add_column("equal", justify="right", footer=_verdict(all(r.comparison.agrees for r in races)))
    table.add_column("Spark, steady", justify="right", footer=f"{spark_steady:.1f} s")
    table.add_column("Spark, total", justify="right", footer=f"{spark_total:.1f} s")
    table.add_column("Muntin, steady", justify="right", style="cyan", footer=f"[bold cyan]{ours.steady:.1f} s")
    table.add_column("Muntin, total", justify="right", style="cyan", footer=f"[cyan]{ours.total:.1f} s")
    for each in races:
        table.add_row(
            f"{describe(each.window.size)} every {describe(each.window.slide)}",
            f"{each.window.copies}",
            f"{each.comparison.rows:,}",
            _verdict(each.comparison.agrees),
            f"{each.spark.steady:.1f} s",
            f"{each.spark.total:.1f} s",
            "│",
            "│",
        )
    console.print(table)
    for each in races:
        if not each.comparison.agrees:
            console.print(
                f"[bold red]The answers for {each.window.title} differ:[/] Muntin has {each.comparison.rows:,} rows, "
                f"Spark {each.comparison.other_rows:,}, and {each.comparison.same:,} are the same."
            )
    console.print(
        "[dim]Total: from start to end of a query. Steady: its batches after the first, which warms up Java and the "
        "Python workers. Muntin ran first, in one query, on a cold Java; Spark's queries ran one after the other, "
        "with Spark's default state store and the same number of partitions.[/]"
    )
    console.print(_summary(ours, races, spark_steady))


def _verdict(agrees: bool) -> str:
    return "[green]✓ every row[/]" if agrees else "[bold red]✗[/]"


def _summary(ours: Run, races: list[Race], spark_steady: float) -> Text:
    text = Text()
    if spark_steady >= ours.steady:
        text.append(f"Steady, Muntin took 1/{spark_steady / ours.steady:.1f} of Spark's time for all three. ", "bold")
    else:
        text.append("Steady, plain Spark was the faster one here. ", "bold")
    faster = [each.window.title for each in races if each.spark.steady < ours.steady]
    if faster:
        text.append(
            f"For {' or '.join(faster)} alone plain Spark is faster: a file of this size costs Muntin little more than "
            "the fixed price of its batches. "
        )
    text.append(
        "Spark's time grows with how many windows hold a row, because it copies the row into each; Muntin's does not."
    )
    return text


def worst_days(console: Console, days: list[WorstDay]) -> None:
    table = Table(title="\nThe worst 24 hours of 2013", title_style="bold", header_style="dim")
    table.add_column("airport")
    table.add_column("from", justify="right")
    table.add_column("flights", justify="right")
    table.add_column("cancelled", justify="right")
    table.add_column("mean delay")
    table.add_column("the week's", justify="right")
    table.add_column("worst flight", justify="right")
    most = max((day.mean_delay for day in days), default=1)
    previous = None
    for day in days:
        if previous not in (None, day.airport):
            table.add_section()
        bar = "━" * max(1, round(day.mean_delay / most * _LONGEST_BAR))
        table.add_row(
            f"[bold]{CITIES.get(day.airport, day.airport)}[/]" if day.airport != previous else "",
            f"{day.start:%a} {day.start.day:>2} {day.start:%b, %H:%M}",
            f"{day.flights}",
            f"{day.cancelled_share:.0%}" if day.cancelled else "[dim]–[/]",
            f"[red]{bar:<{_LONGEST_BAR}}[/] [bold]{day.mean_delay:3.0f} min[/]",
            f"{day.week_mean:.0f} min",
            f"{day.worst_delay // 60} h {day.worst_delay % 60:02} min",
        )
        previous = day.airport
    console.print(table)
