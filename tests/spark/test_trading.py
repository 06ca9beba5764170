"""The algo-trader of the examples: the same predictions as over a table, each once, through failures and restarts."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from examples.trading import query
from examples.trading.__main__ import main
from examples.trading.feed import Feed
from examples.trading.model import Polynomial, fit, mid_prices
from examples.trading.question import Question
from examples.trading.quotes import FIRST_DAY, OPENS, SECOND, generated
from examples.trading.sink import Database, Sink, microseconds
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

QUESTION = Question(window="2 minutes", slide="30 seconds", horizon="30 seconds", stocks=2)
STEP = 60 * SECOND


class FailsAfterwards(Sink):
    """The database has the batch, and then the power fails before Spark has noted it."""

    def write(self, batch: int, rows: Sequence[Mapping[str, Any]]) -> bool:
        super().write(batch, rows)
        if batch == 1:
            raise OSError("power failure")
        return True


@pytest.mark.slow
def test_every_prediction_is_in_the_database_once(spark: SparkSession, tmp_path: Path) -> None:
    database = Database("sqlite3", (str(tmp_path / "trading.db"),))
    market = generated(2)
    quotes, checkpoint = tmp_path / "quotes", tmp_path / "checkpoint"
    feed = Feed(market, quotes, STEP)

    def run(sink: Sink, minutes: int) -> None:
        for _ in range(minutes):
            feed.write()
        results = query.predictions(query.stream(spark, quotes, 3), QUESTION)
        running = query.start(results, sink, checkpoint)
        try:
            running.processAllAvailable()
        finally:
            running.stop()

    sink = Sink(database, "stream")
    sink.create()
    with pytest.raises(StreamingQueryException, match="power failure"):
        run(FailsAfterwards(database, "stream"), minutes=6)
    told = len(sink.read())
    assert told > 0
    run(sink, minutes=0)  # goes on with the batch that failed
    assert len(sink.read()) > told
    run(sink, minutes=3)  # and with what came later

    rows = sink.read()
    found = {(row["symbol"], row["window_end"]): row for row in rows}
    assert len(found) == len(rows)
    # What the stream told is what a table of the same quotes has, but for windows that are still open.
    table = query.rows(query.predictions(spark.read.schema(query.QUOTES).parquet(str(quotes)), QUESTION).toArrow())
    last = max(microseconds(row["window_end"]) for row in rows)
    closed = {(row["symbol"], row["window_end"]): row for row in table if row["window_end"] <= last}
    assert last == FIRST_DAY + OPENS + 9 * STEP - 30 * SECOND
    assert {(symbol, microseconds(end)) for symbol, end in found} == set(closed)
    for (symbol, end), row in found.items():
        other = closed[symbol, microseconds(end)]
        for name in ("quotes", "last_price", "highest", "status", "residual", "prediction"):
            assert row[name] == (pytest.approx(other[name]) if isinstance(other[name], float) else other[name])
    # And that is what the model says of the window's quotes, without Spark.
    start = last - FIRST_DAY - OPENS - 2 * STEP
    _, curve = fit(*mid_prices(market.stocks[0].between(start, start + 2 * STEP)), Polynomial().degree)
    assert curve is not None
    assert closed["GEN1", last]["prediction"] == pytest.approx(curve.at(last + 30 * SECOND))


@pytest.mark.slow
def test_the_command(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    words = (
        f"--seconds 4 --speed 150 --stocks 2 --at-once --window=2min --quotes {tmp_path} --out {out} --state {state}"
    )
    assert main(words.split()) == 0
    printed = capsys.readouterr().out
    assert "All predictions that fell due" in printed
    assert (out / "trading.png").stat().st_size > 10_000
    with closing(sqlite3.connect(out / "trading.db")) as connection:
        count, fitted = connection.execute("SELECT COUNT(*), SUM(status = 'fitted') FROM predictions").fetchone()
    assert count > 30
    assert fitted > 30
    assert main([*words.split(), "--slide", "20 seconds"]) == 1  # another stream
    assert "slide '30 seconds'" in capsys.readouterr().err
