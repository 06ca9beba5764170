"""The demo from start to end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from rich.console import Console

import muntin
from muntin.demo import compare, flights, plot, queries, show, worst
from muntin.demo.follow import Run, Standing, look_at_muntin, look_at_spark, run_to_end
from muntin.demo.show import Race
from muntin.quiet import last_lines, stderr_to
from muntin.spark.session import PARTITIONS, partitions
from muntin.windows import TimeWindow

WORST_DAYS_EACH = 3


def run(out: Path, months: int = 12) -> int:
    """Run the demo over the first `months` months of the year. Writes plot and log to `out`, returns the exit code."""
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    log = out / "spark.log"
    try:
        with stderr_to(log), tempfile.TemporaryDirectory(prefix="muntin-demo-") as temporary:
            return _Demo(console, Path(temporary), out, months).run()
    except Exception:
        console.print(f"[bold red]The demo failed.[/] The end of Spark's log, {log}:\n")
        console.print(last_lines(log), markup=False, highlight=False)
        raise


class _Demo:
    def __init__(self, console: Console, temporary: Path, out: Path, months: int) -> None:
        self._console = console
        self._temporary = temporary
        self._out = out
        self._months = months
        self._files = temporary / "flights"

    def run(self) -> int:
        self._files.mkdir()
        rows = flights.write_months(self._files, self._months)
        show.welcome(self._console, rows, self._months)
        with self._console.status("Starting Spark …"):
            spark = muntin.session("muntin-demo")
        already_running = spark.sparkContext.appName != "muntin-demo"  # an existing session keeps its name
        try:
            if not already_running:
                spark.sparkContext.setLogLevel("ERROR")
            return self._race(spark, rows)
        finally:
            if not already_running:
                spark.stop()

    def _race(self, spark: SparkSession, rows: int) -> int:
        with show.progress(self._console, rows) as add:
            ours = self._muntin(spark, add("[bold cyan]Muntin all three[/]"))
            theirs = {
                window.title: self._spark(spark, window, add(f"Spark  {window.title}")) for window in queries.WINDOWS
            }
        reader = spark.newSession()
        reader.conf.set("spark.sql.session.timeZone", "UTC")  # the times of the flights are stored as UTC
        answers = self._answers(reader)
        races = []
        for window in queries.WINDOWS:
            expected = compare.in_order(self._results(reader, window.title))
            races.append(Race(window, theirs[window.title], compare.compare(answers[window.title], expected)))
        show.race(self._console, ours, races)
        days = worst.worst_days(answers[queries.DAY.title], answers[queries.WEEK.title], WORST_DAYS_EACH)
        show.worst_days(self._console, days)
        picture = self._out / "flights.png"
        plot.draw(answers, days, picture)
        self._console.print(f"The year as a picture: [bold]{picture}[/]\nSpark's own log: {self._out / 'spark.log'}")
        return 0 if all(race.comparison.agrees for race in races) else 1

    def _muntin(self, spark: SparkSession, report: Callable[[Standing], None]) -> Run:
        session = muntin.configure(spark.newSession())  # with its own settings, which Spark's queries do not get
        results = queries.with_muntin(flights.stream(session, self._files))
        return run_to_end(results, self._temporary / "muntin", look_at_muntin, report)

    def _spark(self, spark: SparkSession, window: TimeWindow, report: Callable[[Standing], None]) -> Run:
        session = spark.newSession()
        session.conf.set(PARTITIONS, partitions(spark))
        results = queries.with_spark(flights.stream(session, self._files), window)
        return run_to_end(results, self._temporary / window.title, look_at_spark, report)

    def _answers(self, spark: SparkSession) -> dict[str, pa.Table]:
        """Muntin's results by the title of their window."""
        results = self._results(spark, "muntin")
        return {
            window.title: compare.in_order(results.filter(pc.equal(results["window_name"], window.title)))
            for window in queries.WINDOWS
        }

    def _results(self, spark: SparkSession, title: str) -> pa.Table:
        return spark.read.parquet(str(self._temporary / title / "results")).toArrow()
