from __future__ import annotations

import re
import sqlite3
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from examples.trading.sink import COLUMNS, Database, Sink, microseconds

from muntin.errors import MuntinError

MINUTE = 60_000_000
NEW_YEAR = 1_514_764_800_000_000


def prediction(minute: int, symbol: str = "ACME", **values: Any) -> dict[str, Any]:
    """A row of the query, of a five-minute window."""
    start = NEW_YEAR + minute * MINUTE
    row = dict.fromkeys([name for name in COLUMNS if name not in ("stream_id", "batch_id")])
    times = {"window_start": start, "window_end": start + 5 * MINUTE, "due": start + 6 * MINUTE}
    return row | times | {"symbol": symbol, "quotes": 7, "status": "fitted", "prediction": 10.5} | values


class Translating:
    """A cursor for SQLite with another paramstyle."""

    def __init__(self, cursor: sqlite3.Cursor, style: str) -> None:
        self._cursor = cursor
        self._style = style
        self.close = cursor.close
        self.fetchone = cursor.fetchone
        self.fetchall = cursor.fetchall

    def execute(self, statement: str, parameters: Any = ()) -> None:
        self._cursor.execute(self._translated(statement), parameters)

    def executemany(self, statement: str, parameters: Any) -> None:
        self._cursor.executemany(self._translated(statement), parameters)

    def _translated(self, statement: str) -> str:
        assert "?" not in statement
        if self._style == "format":
            return statement.replace("%s", "?")
        if self._style == "pyformat":
            return re.sub(r"%\((\w+)\)s", r":\1", statement)
        if self._style == "numeric":
            return re.sub(r":(\d+)", r"?\1", statement)
        return statement


class Connection:
    def __init__(self, path: str, style: str) -> None:
        self._connection = sqlite3.connect(path)
        self._style = style
        self.commit = self._connection.commit
        self.rollback = self._connection.rollback
        self.close = self._connection.close

    def cursor(self) -> Translating:
        return Translating(self._connection.cursor(), self._style)


@pytest.fixture(params=["qmark", "format", "numeric", "named", "pyformat"])
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    style = request.param
    if style == "qmark":
        return Database("sqlite3", (str(tmp_path / "test.db"),))
    driver = ModuleType("translating_driver")
    driver.__dict__.update(paramstyle=style, connect=lambda path: Connection(path, style))
    monkeypatch.setitem(sys.modules, driver.__name__, driver)
    return Database(driver.__name__, (str(tmp_path / "test.db"),))


@pytest.fixture
def sink(database: Database) -> Sink:
    sink = Sink(database, "first")
    sink.create()
    return sink


def test_a_batch_counts_once(sink: Sink) -> None:
    sink.create()  # existing tables are kept
    assert sink.write(0, [prediction(0), prediction(0, "XYZ")])
    assert not sink.write(0, [prediction(0), prediction(0, "XYZ")])
    assert sink.write(1, [])
    assert sink.write(2, [prediction(1)])
    assert not sink.write(1, [prediction(2)])
    written = [(row["window_start"][11:16], row["symbol"], row["batch_id"]) for row in sink.read()]
    assert written == [("00:00", "ACME", 0), ("00:00", "XYZ", 0), ("00:01", "ACME", 2)]


def test_values_come_back(sink: Sink) -> None:
    sink.write(0, [prediction(3, residual=float("nan"), prediction=float("inf"), last_price=10.25)])
    (row,) = sink.read()
    assert row["window_end"] == "2018-01-01 00:08:00.000000"
    assert microseconds(row["window_end"]) == NEW_YEAR + 8 * MINUTE
    assert (row["quotes"], row["last_price"], row["status"]) == (7, 10.25, "fitted")
    assert (row["residual"], row["prediction"], row["lowest"]) == (None, None, None)


def test_two_streams_share_a_database(sink: Sink, database: Database) -> None:
    sink.write(0, [prediction(0)])
    other = Sink(database, "second")
    assert other.write(0, [prediction(0), prediction(1)])
    assert (len(sink.read()), len(other.read())) == (1, 2)


def test_a_batch_that_fails_leaves_nothing(sink: Sink) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        sink.write(0, [prediction(0), prediction(1), prediction(1)])
    assert sink.read() == []
    assert sink.write(0, [prediction(0), prediction(1)])
    assert len(sink.read()) == 2


def test_what_an_attempt_without_a_transaction_left_is_replaced(tmp_path: Path) -> None:
    database = Database("sqlite3", (str(tmp_path / "test.db"),), {"isolation_level": None})
    sink = Sink(database, "first")
    sink.create()
    with pytest.raises(sqlite3.IntegrityError):
        sink.write(0, [prediction(0), prediction(1), prediction(1)])
    assert len(sink.read()) == 2  # every statement was committed at once
    assert sink.write(0, [prediction(0), prediction(1)])
    assert len(sink.read()) == 2


def test_nothing_in_a_symbol_is_a_statement(sink: Sink) -> None:
    name = "'); DROP TABLE predictions; --%s ?"
    sink.write(0, [prediction(0, name)])
    assert [row["symbol"] for row in sink.read()] == [name]


@pytest.mark.parametrize(
    ("words", "arguments", "options"),
    [
        (["sqlite3"], (), {}),
        (["sqlite3", "market.db"], ("market.db",), {}),
        (
            ["sqlite3", "file:market.db?mode=ro", "uri=True", "timeout=5"],
            ("file:market.db?mode=ro",),
            {"uri": True, "timeout": 5},
        ),
        (
            ["sqlite3", "host=localhost", "port=5432", "password='1234'"],
            (),
            {"host": "localhost", "port": 5432, "password": "1234"},
        ),
        (["sqlite3", "dbname=market user=me"], ("dbname=market user=me",), {}),
        (["sqlite3", "name=[1]"], (), {"name": "[1]"}),
        (["sqlite3", "name=a=b"], (), {"name": "a=b"}),
    ],
)
def test_databases_of_the_command_line(words: list[str], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert Database.of(words) == Database("sqlite3", arguments, options)


def test_a_password_is_not_shown() -> None:
    assert str(Database.of(["sqlite3", "market.db", "password=secret"])) == "sqlite3 market.db"


@pytest.mark.parametrize(
    ("module", "says"), [("no_such_driver", "cannot be imported"), ("math", "its paramstyle is None")]
)
def test_what_is_no_driver(module: str, says: str) -> None:
    with pytest.raises(MuntinError, match=says):
        Database.of([module])
