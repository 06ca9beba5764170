"""The output of the example, which fits 80 columns."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from examples.trading import query
from examples.trading.judge import Score
from examples.trading.question import Question
from examples.trading.quotes import Market
from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.syntax import Syntax
from rich.table import Table


@dataclass(frozen=True)
class Standing:
    sent: int
    """Quotes in the folder."""
    read: int
    windows: int
    """Fitted windows, over all stocks."""
    batches: int
    running: bool


def welcome(console: Console, market: Market, question: Question, database: str) -> None:
    code = inspect.getsource(query.fit_windows).partition("\n")[2]
    console.print(
        Panel(
            Group(
                f"[bold]{len(market.stocks)} stocks[/]: {market.source}.",
                f"Every {question.slide}, a polynomial of degree {question.degree} goes through the last "
                f"{question.window} of each, by Levenberg-Marquardt, and predicts the price {question.horizon} later. "
                f"Predictions go to a database, each exactly once: [cyan]{database}[/]",
                "",
                Syntax(textwrap.dedent(code).rstrip(), "python", background_color="default"),
            ),
            title="[bold]muntin trading[/]",
            border_style="cyan",
            padding=(1, 2),
        )
    )


@contextmanager
def progress(console: Console, seconds: float) -> Iterator[Callable[[Standing], None]]:
    """A live display. Yields the callback for the progress. The source sends quotes for `seconds`."""
    display = Progress(
        SpinnerColumn(finished_text="[green]✓"),
        BarColumn(bar_width=6),
        TextColumn("{task.fields[standing]}"),
        TextColumn("{task.elapsed:.0f} s", justify="right"),
        console=console,
    )
    # Sending quotes is one half of the bar, reading them the other.
    task = display.add_task("", total=2 * seconds, standing="[dim]warming up in the first batch[/]")

    def show(now: Standing) -> None:
        if now.batches:
            text = (
                f"{now.sent:>7,} quotes [dim]·[/] {now.read:>7,} read [dim]·[/] {now.windows:>5,} windows "
                f"[dim]·[/] {now.batches:>2} batches"
            )
            display.update(task, standing=text)
        elapsed = display.tasks[task].elapsed or 0.0
        share_read = min(1.0, now.read / now.sent) if now.sent else 0.0
        done = min(elapsed, seconds) * (1 + share_read)
        display.update(task, completed=done if now.running else 2 * seconds)

    with display:
        yield show


def results(console: Console, scores: Sequence[Score], question: Question) -> None:
    """Print the last prediction of each stock, and the scores of all predictions."""
    if not scores:
        console.print("No prediction has fallen due yet: run longer with [bold]--seconds[/].")
        return
    table = _table(f"The last predictions, {question.horizon} ahead")
    table.add_column("stock", style="bold", no_wrap=True)
    for title in ("for", "predicted", "actual", "error", "last price", "error"):
        table.add_column(title, justify="right", no_wrap=True)
    for score in scores:
        last = score.last
        table.add_row(
            last.symbol,
            last.due[11:19],
            f"{last.predicted:.3f}",
            f"{last.happened:.3f}",
            _marked(last.error, last.naive_error),
            f"{last.naive:.3f}",
            _marked(last.naive_error, last.error),
        )
    console.print(table)
    table = _table("All predictions that fell due")
    table.add_column("stock", style="bold", no_wrap=True)
    for title in ("predictions", "median error", "of the last price", "curve closer"):
        table.add_column(title, justify="right", no_wrap=True)
    for score in scores:
        table.add_row(
            score.last.symbol,
            f"{score.predictions:,}",
            f"{score.error:.4f}",
            f"{score.naive_error:.4f}",
            f"{score.closer / score.predictions:.0%}",
        )
    console.print(table)
    console.print(verdict(scores))
    console.print(
        "[dim]Errors are in the currency of the prices. The last price is the guess that the price does not change. "
        "Times are the market's, in UTC.[/]"
    )


def verdict(scores: Sequence[Score]) -> str:
    """The result in words, also if it speaks against the model."""
    better = sum(score.error < score.naive_error for score in scores)
    predictions = sum(score.predictions for score in scores)
    closer, equal = (sum(getattr(score, name) for score in scores) for name in ("closer", "equal"))
    sentences = [
        f"The curve was closer than the last price for [bold]{closer / predictions:.0%}[/] of {predictions:,} "
        f"predictions, and its median error smaller for [bold]{better} of {len(scores)}[/] stocks."
    ]
    if 2 * closer < predictions - equal:
        sentences.append(
            "So it is worse than no model at all, as theory predicts for prices that follow a random walk. This is an "
            "example of an expensive function over windows, not advice."
        )
    return " ".join(sentences)


def _marked(error: float, other: float) -> str:
    text = f"{error:+.3f}"
    return f"[green]{text}[/]" if abs(error) < abs(other) else text


def _table(title: str) -> Table:
    return Table(box=box.SIMPLE_HEAD, title=f"\n{title}", title_style="bold", header_style="dim", padding=(0, 1, 0, 0))
