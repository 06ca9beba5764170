"""The sink: writes each prediction to a database exactly once, with any driver of Python's DB-API 2.0 (PEP 249)."""

from __future__ import annotations

import ast
import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muntin.errors import MuntinError

COLUMNS = {
    "stream_id": "VARCHAR(40) NOT NULL",
    "batch_id": "BIGINT NOT NULL",
    "symbol": "VARCHAR(32) NOT NULL",
    "window_start": "VARCHAR(26) NOT NULL",
    "window_end": "VARCHAR(26) NOT NULL",
    "quotes": "BIGINT NOT NULL",
    "first_price": "DOUBLE PRECISION",
    "highest": "DOUBLE PRECISION",
    "lowest": "DOUBLE PRECISION",
    "last_price": "DOUBLE PRECISION",
    "status": "VARCHAR(16) NOT NULL",
    "residual": "DOUBLE PRECISION",
    "due": "VARCHAR(26) NOT NULL",
    "prediction": "DOUBLE PRECISION",
}
TIMES = ("window_start", "window_end", "due")
"""Text in UTC, such as 2018-01-02 14:35:00.000000, since drivers and databases disagree about times."""
KEY = ("stream_id", "symbol", "window_start", "window_end")
BATCH = ("stream_id", "batch_id")

_PLACEHOLDERS = {
    "qmark": "?",
    "format": "%s",
    "numeric": ":{position}",
    "named": ":{name}",
    "pyformat": "%({name})s",
}
_BY_NAME = ("named", "pyformat")


@dataclass(frozen=True)
class Database:
    """The module of a driver, and the arguments of its `connect`."""

    module: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Sequence[str]) -> Database:
        """From the command line: `sqlite3 trading.db`, or `psycopg host=localhost port=5432 dbname=market`."""
        module, *others = words
        arguments, options = [], {}
        for word in others:
            name, equals, value = word.partition("=")
            if equals and name.isidentifier() and not any(map(str.isspace, word)):
                options[name] = _literal(value)
            else:
                arguments.append(word)
        database = cls(module, tuple(arguments), options)
        database.placeholders(())  # fails early if the module is missing or no driver
        return database

    def __str__(self) -> str:
        """Without the options, which may contain a password."""
        return " ".join([self.module, *map(str, self.arguments)])

    def connect(self) -> Any:
        return self._driver().connect(*self.arguments, **self.options)

    def placeholders(self, names: Sequence[str]) -> list[str]:
        """The placeholder of each parameter in a statement, in the paramstyle of the driver."""
        form = _PLACEHOLDERS[self._style()]
        return [form.format(position=position, name=name) for position, name in enumerate(names, start=1)]

    def parameters(self, names: Sequence[str], row: Mapping[str, Any]) -> Any:
        if self._style() in _BY_NAME:
            return {name: row[name] for name in names}
        return tuple(row[name] for name in names)

    def _style(self) -> str:
        style = getattr(self._driver(), "paramstyle", None)
        if style not in _PLACEHOLDERS:
            raise MuntinError(
                f"--database names {self.module!r}, which is no driver of Python's DB-API: its paramstyle is {style!r}."
            )
        return str(style)

    def _driver(self) -> Any:
        try:
            return importlib.import_module(self.module)
        except ImportError as error:
            raise MuntinError(
                f"--database names {self.module!r}, which cannot be imported ({error}); give the module of a driver of "
                "Python's DB-API, such as sqlite3 or psycopg."
            ) from error


def _literal(value: str) -> Any:
    """Numbers become numbers, as drivers expect for ports. Quoted values become text."""
    try:
        literal = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    return literal if isinstance(literal, int | float | str) else value


class Sink:
    """Writes each batch once, although Spark repeats the last batch after a failure.

    The number of a batch is written in the same transaction as its rows. A batch whose number exists is skipped. The
    rows contain the number, too: in a database without transactions, the rows of a failed attempt are deleted first.
    """

    def __init__(self, database: Database, stream_id: str) -> None:
        """`stream_id` identifies the checkpoint, since batches of other checkpoints have the same numbers."""
        self._database = database
        self._stream_id = stream_id

    def create(self) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        of_batch = ", ".join(f"{name} {COLUMNS[name]}" for name in BATCH)
        with self._transaction() as cursor:
            cursor.execute(f"CREATE TABLE IF NOT EXISTS predictions ({columns}, PRIMARY KEY ({', '.join(KEY)}))")
            cursor.execute(f"CREATE TABLE IF NOT EXISTS batches ({of_batch}, PRIMARY KEY ({', '.join(BATCH)}))")

    def write(self, batch: int, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Write a batch. Returns False if it was written before."""
        key = {"stream_id": self._stream_id, "batch_id": batch}
        with self._transaction() as cursor:
            if self._run(cursor, f"SELECT COUNT(*) FROM batches WHERE {self._where(BATCH)}", key).fetchone()[0]:
                return False
            self._run(cursor, f"DELETE FROM predictions WHERE {self._where(BATCH)}", key)
            if rows:
                parameters = [self._database.parameters(list(COLUMNS), key | _storable(row)) for row in rows]
                cursor.executemany(self._insert("predictions", list(COLUMNS)), parameters)
            self._run(cursor, self._insert("batches", BATCH), key)
        return True

    def read(self) -> list[dict[str, Any]]:
        """The predictions of this stream, ordered by window."""
        condition = self._where(["stream_id"])
        statement = f"SELECT {', '.join(COLUMNS)} FROM predictions WHERE {condition} ORDER BY window_end, symbol"
        with self._transaction() as cursor:
            rows = self._run(cursor, statement, {"stream_id": self._stream_id}).fetchall()
        return [dict(zip(COLUMNS, row, strict=True)) for row in rows]

    def _run(self, cursor: Any, statement: str, row: Mapping[str, Any]) -> Any:
        """Execute a statement. Returns the cursor, since the result of `execute` depends on the driver."""
        cursor.execute(statement, self._database.parameters(list(row), row))
        return cursor

    def _insert(self, table: str, names: Sequence[str]) -> str:
        placeholders = ", ".join(self._database.placeholders(names))
        return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({placeholders})"

    def _where(self, names: Sequence[str]) -> str:
        pairs = zip(names, self._database.placeholders(names), strict=True)
        return " AND ".join(f"{name} = {placeholder}" for name, placeholder in pairs)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A new connection per transaction: batches are seconds apart, and run on different threads of Spark."""
        with closing(self._database.connect()) as connection:
            try:
                with closing(connection.cursor()) as cursor:
                    yield cursor
            except BaseException:
                connection.rollback()
                raise
            connection.commit()


def _storable(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values for the database: times as text, and null for NaN and infinities."""
    values = {name: _text(value) if name in TIMES else value for name, value in row.items()}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }


def _text(microseconds: int) -> str:
    return str(np.datetime64(microseconds, "us")).replace("T", " ")


def microseconds(text: str) -> int:
    return int(np.datetime64(text, "us").astype(np.int64))
