"""The application from start to end: source, operator, sink, and the evaluation."""

from __future__ import annotations

import json
import math
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event

from examples.trading import plot, query, show
from examples.trading.feed import Feed
from examples.trading.judge import judge, scores
from examples.trading.question import Question
from examples.trading.quotes import SECOND, market
from examples.trading.show import Standing
from examples.trading.sink import Database, Sink
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

import muntin
from muntin.errors import MuntinError
from muntin.quiet import last_lines, stderr_to

_LOOK_EVERY = 0.5
_FILES_A_BATCH = 10
"""The largest batch, which is reached when the stream catches up after a pause."""


@dataclass(frozen=True)
class Settings:
    out: Path
    quotes: Path
    """The folder of recorded quotes; it may be missing."""
    question: Question = field(default_factory=Question)
    seconds: float = 30
    """How long the source sends quotes, one file per second."""
    speed: float = 300
    """Seconds of market time per second of real time."""
    at_once: bool = False
    """Send all quotes at once, without waiting."""
    database: Database | None = None
    """None for an SQLite file in `out`."""
    state: Path | None = None
    """The folder of quotes and checkpoint, from which the next run continues; None for a temporary one."""

    @property
    def step(self) -> int:
        """Market time per file, in microseconds."""
        return round(self.speed * SECOND)


def run(settings: Settings) -> int:
    """Run the application. Returns the exit code."""
    console = Console()
    settings.out.mkdir(parents=True, exist_ok=True)
    log = settings.out / "spark.log"
    try:
        with stderr_to(log), _folder(settings.state) as state:
            _Trading(console, settings, state).run()
        return 0
    except MuntinError:
        raise
    except Exception:
        console.print(f"[bold red]It failed.[/] The end of Spark's log, {log}:\n")
        console.print(last_lines(log), markup=False, highlight=False)
        raise


@contextmanager
def _folder(state: Path | None) -> Iterator[Path]:
    if state is not None:
        state.mkdir(parents=True, exist_ok=True)
        yield state
        return
    with tempfile.TemporaryDirectory(prefix="muntin-trading-") as temporary:
        yield Path(temporary)


def stream_id(state: Path, settings: Settings) -> str:
    """The id of the stream in the folder, new or stored. The parameters of its quotes and windows must not change."""
    path = state / "stream.json"
    parameters = {
        "step": settings.step,
        "quotes": str(settings.quotes.resolve()),
        **{name: value for name, value in asdict(settings.question).items() if name not in ("horizon", "degree")},
    }
    if not path.exists():
        path.write_text(json.dumps({"stream": str(uuid.uuid4()), **parameters}, indent=1), encoding="utf-8")
    stored = json.loads(path.read_text(encoding="utf-8"))
    changed = [name for name, value in parameters.items() if stored.get(name) != value]
    if changed:
        differing = ", ".join(f"{name} {stored.get(name)!r}" for name in changed)
        raise MuntinError(f"--state {state} holds a stream with {differing}; give the same again, or another folder.")
    return str(stored["stream"])


class _Trading:
    def __init__(self, console: Console, settings: Settings, state: Path) -> None:
        self._console = console
        self._settings = settings
        self._question = settings.question
        self._database = settings.database or Database("sqlite3", (str(settings.out / "trading.db"),))
        self._market = market(settings.quotes, settings.question.stocks)
        self._sink = Sink(self._database, stream_id(state, settings))
        self._feed = Feed(self._market, state / "quotes", settings.step)
        self._state = state

    def run(self) -> None:
        show.welcome(self._console, self._market, self._question, str(self._database))
        self._sink.create()
        with self._console.status("Starting Spark …"):
            spark = muntin.session("muntin-trading")
        already_running = spark.sparkContext.appName != "muntin-trading"  # an existing session keeps its name
        try:
            if not already_running:
                spark.sparkContext.setLogLevel("ERROR")
            self._trade(spark)
        finally:
            if not already_running:
                spark.stop()
        self._evaluate()

    def _trade(self, spark: SparkSession) -> None:
        quotes = query.stream(spark, self._state / "quotes", _FILES_A_BATCH)
        results = query.predictions(quotes, self._question)
        seconds = self._settings.seconds
        stop = Event()
        with show.progress(self._console, seconds) as report, ThreadPoolExecutor(1) as background:
            running = query.start(results, self._sink, self._state / "checkpoint")

            def look(_: object = None) -> None:
                report(self._look(running))

            try:
                interval = 0.0 if self._settings.at_once else 1.0
                _wait(background.submit(self._feed.run, math.ceil(seconds), interval, stop), running, look)
                _wait(background.submit(running.processAllAvailable), running, look)
            finally:
                stop.set()
                running.stop()
            look()

    def _look(self, running: StreamingQuery) -> Standing:
        progress = muntin.progress(running)
        return Standing(self._feed.quotes, progress.rows, progress.results, progress.batch_id + 1, running.isActive)

    def _evaluate(self) -> None:
        rows = self._sink.read()
        judged = judge(rows)
        all_scores = scores(judged)
        show.results(self._console, all_scores, self._question)
        picture = self._settings.out / "trading.png"
        plot.draw(rows, judged, [score.last.symbol for score in all_scores], self._question, picture)
        self._console.print(
            f"{len(rows):,} windows are in the table [bold]predictions[/] of [bold]{self._database}[/]\n"
            f"Candles and predictions: [bold]{picture}[/]\nSpark's own log: {self._settings.out / 'spark.log'}"
        )


def _wait(work: Future[None], running: StreamingQuery, look: Callable[[], None]) -> None:
    """Wait until the work is done. Raises the error of the query if that fails."""
    while not work.done():
        if (failure := running.exception()) is not None:
            raise failure
        look()
        time.sleep(_LOOK_EVERY)
    work.result()
