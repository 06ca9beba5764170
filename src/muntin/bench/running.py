"""The frame of every benchmark: Spark, a folder for its files, a progress bar, and the output."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import muntin
from muntin.bench.report import Record, show, write
from muntin.bench.steady import Measured, measure
from muntin.quiet import last_lines, stderr_to


@dataclass
class Running:
    """A running benchmark. Every `step` advances the progress bar."""

    spark: SparkSession
    place: Path
    """A temporary folder for its files."""
    _bars: Progress

    def __post_init__(self) -> None:
        self._task = self._bars.add_task("")
        self._title = ""

    def steps(self, count: int) -> None:
        self._bars.update(self._task, total=count)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        self._title = title
        self._bars.update(self._task, description=title)
        yield
        self._bars.advance(self._task)

    def measure(self, frame: DataFrame, warm_up: int, mode: str = "append") -> Measured:
        return measure(frame, self.place / "scratch", warm_up, self.tick, mode)

    def tick(self, batch: str) -> None:
        """Show the progress of the current step."""
        self._bars.update(self._task, description=f"{self._title}, {batch}")


Draw: TypeAlias = Callable[[Path], None]


def run_benchmark(name: str, title: str, out: Path, body: Callable[[Running], tuple[Sequence[Record], Draw]]) -> int:
    """Run `body`, show and write its records, draw its chart. Returns 0 if every target is met."""
    console = Console()
    place = Path(tempfile.mkdtemp(prefix="muntin-bench-"))
    out.mkdir(parents=True, exist_ok=True)
    log = out / "spark.log"
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    try:
        with stderr_to(log), Progress(*columns, console=console) as bars:
            spark = muntin.session("muntin-bench")
            spark.sparkContext.setLogLevel("ERROR")
            records, draw = body(Running(spark, place, bars))
    except Exception:
        console.print(last_lines(log))
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)
    show(records, title, console)
    write(records, out / f"{name}.json")
    draw(out / f"{name}.png")
    console.print(f"\n{out / name}.json and {out / name}.png")
    return 0 if all(record.meets is not False for record in records) else 1
