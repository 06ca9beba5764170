"""Tables of SQLite, and of a real PostgreSQL where it is installed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muntin.errors import MuntinError
from muntin.sinks.database import DatabaseTarget
from muntin.sinks.drivers import Driver
from muntin.sinks.revisions import Revisions
from tests.sinks.batches import KEY, ROWS, SENT, STORED, Row, Table, batch, expected, keyed, row, updates
from tests.sinks.servers import postgres

Connect = Callable[[], Any]
NUMBERS = count()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def connect(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("database") / "t.db"
        yield lambda: sqlite3.connect(path)
        return
    psycopg = pytest.importorskip("psycopg", reason="psycopg, a driver for PostgreSQL, is not installed")
    with postgres() as address:
        yield lambda: psycopg.connect(address)


def target(connect: Connect, name: str | None = None) -> DatabaseTarget:
    made = DatabaseTarget(connect, (f'results "{next(NUMBERS)}" of 100 %s' if name is None else name,), ROWS, STORED)
    made.prepare()
    return made


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def run(connect: Connect, *statements: str) -> list[tuple[Any, ...]]:
    with closing(connect()) as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        found = cursor.fetchall() if cursor.description else []
        connection.commit()
        return list(found)


def stored(connect: Connect, table: DatabaseTarget) -> Table:
    names = ", ".join(map(quoted, STORED.names))
    rows = run(connect, f"SELECT {names} FROM {quoted(table.table[0])}")
    if isinstance(rows[0][0] if rows else None, str):  # SQLite has texts
        rows = [
            (
                datetime.fromisoformat(start),
                number,
                key,
                None if day is None else date.fromisoformat(day),
                None if price is None else Decimal(price),
                *others,
            )
            for start, number, key, day, price, *others in rows
        ]
    return keyed(dict(zip(STORED.names, each, strict=True)) for each in rows)


@given(updates(), st.integers(0, 4))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_has_the_latest_revisions_however_often_a_batch_is_written(
    connect: Connect, batches: list[list[Row]], repeated: int
) -> None:
    table = target(connect)
    for number, rows in enumerate(batches):
        table.write(batch(rows))
        if number == repeated:
            table.write(batch(rows))
        assert stored(connect, table) == expected(batches[: number + 1])


def test_an_earlier_revision_does_not_replace_a_later_one(connect: Connect) -> None:
    table = target(connect)
    for key in ("a", None):
        table.write(batch([row(1, key, 2, n=2)]))
        table.write(batch([row(1, key, 1, n=1)]))
        table.write(batch([row(1, key, 1, retracted=True, n=None)]))
    assert {each["n"] for each in stored(connect, table).values()} == {2}


def test_a_batch_that_fails_leaves_nothing(connect: Connect) -> None:
    table = target(connect)
    run(connect, f"CREATE UNIQUE INDEX narrow_{next(NUMBERS)} ON {quoted(table.table[0])} (n)")
    table.write(batch([row(1, "a", 0, n=5)]))
    with pytest.raises(Exception, match=r"(?i)unique"):
        table.write(batch([row(2, "a", 0, n=6), row(3, "a", 0, n=5), row(4, None, 0, n=7)]))
    assert [each["n"] for each in stored(connect, table).values()] == [5]


def test_results_without_revisions_replace_what_is_there(connect: Connect) -> None:
    names = ("window_id", KEY, "n")
    schema = pa.schema([SENT.field(name) for name in names])
    name = f"plain_{next(NUMBERS)}"
    table = DatabaseTarget(connect, (name,), Revisions(names, names[:2]), schema)
    table.prepare()
    for n in (1, 2):
        table.write(pa.table([[7, 7], ["a", None], [n, n + 1]], schema))
    assert sorted(run(connect, f"SELECT n FROM {name}")) == [(2,), (3,)]
    only = DatabaseTarget(connect, (f"{name}_keys",), Revisions(names[:2], names[:2]), pa.schema(list(schema)[:2]))
    only.prepare()
    for _ in range(2):
        only.write(pa.table([[7, 7], ["a", None]], only.schema))
    assert run(connect, f"SELECT count(*) FROM {name}_keys") == [(2,)]


def test_a_table_that_fits_may_have_more_columns(connect: Connect) -> None:
    table = target(connect)
    run(connect, f"ALTER TABLE {quoted(table.table[0])} ADD COLUMN note TEXT")
    again = target(connect, table.table[0])
    again.write(batch([row(1, "a", 0)]))
    assert len(stored(connect, again)) == 1


KINDS = {
    "TEXT": pa.string(),
    "BIGINT": pa.int64(),
    "DATE": pa.date32(),
    "NUMERIC(10, 2)": pa.decimal128(10, 2),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
}


def definition(changed: str | None = None, kind: str = "", unique: str = f"window_id, {quoted(KEY)}, d") -> str:
    named = {kind: name for name, kind in KINDS.items()}
    columns = [
        f"{quoted(field.name)} {kind if field.name == changed else named[field.type]}"
        for field in STORED
        if field.name != changed or kind
    ]
    return f"({', '.join([*columns, f'UNIQUE ({unique})'])})"


@pytest.mark.parametrize(
    ("changed", "kind", "unique", "reason"),
    [
        ("n", "", None, "(column|no column).*n"),
        (None, "", "window_id, d", "(?i:on conflict)"),
        ("n", "BIGINT CHECK (n < 5)", None, "(?i:check)"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    connect: Connect, changed: str | None, kind: str, unique: str | None, reason: str
) -> None:
    name = f"misfit_{next(NUMBERS)}"
    run(connect, f"CREATE TABLE {name} {definition(changed, kind, *([] if unique is None else [unique]))}")
    with pytest.raises(MuntinError, match=f"target '{name}' does not take these results: .*{reason}") as error:
        target(connect, name)
    assert f'It fits if it is made by: CREATE TABLE "{name}" ("window_start" ' in str(error.value)
    assert run(connect, f"SELECT count(*) FROM {name}") == [(0,)]


@pytest.mark.parametrize(
    ("changed", "kind", "reason"),
    [
        ("n", "INTEGER", "out of range"),
        ("n", "TEXT", "column 'n' turns"),
        ("price", "NUMERIC(10, 1)", "column 'price' turns Decimal"),
        ("window_start", "TIMESTAMP", "column 'window_start' turns"),
        ("timing", "DATE", "invalid input syntax for type date"),
        ("revision", "REAL", "column 'revision' turns"),
    ],
)
def test_types_that_are_too_narrow_are_refused(connect: Connect, changed: str, kind: str, reason: str) -> None:
    """By PostgreSQL: columns of SQLite take any value."""
    if isinstance(connect(), sqlite3.Connection):
        pytest.skip("SQLite stores any value in any column")
    name = f"narrow_{next(NUMBERS)}"
    run(connect, f"CREATE TABLE {name} {definition(changed, kind)}")
    with pytest.raises(MuntinError, match=f"does not take these results: .*{reason}"):
        target(connect, name)


def test_a_database_that_cannot_be_reached_or_is_none(tmp_path: Path) -> None:
    with pytest.raises(MuntinError, match=r"target 'a\.b' cannot be read, and cannot be made: unknown database"):
        DatabaseTarget(lambda: sqlite3.connect(tmp_path / "t.db"), ("a", "b"), ROWS, STORED).prepare()

    class Other:
        def rollback(self) -> None: ...
        def close(self) -> None: ...

    with pytest.raises(MuntinError, match="connect returned a Other, which is no connection"):
        DatabaseTarget(Other, ("t",), ROWS, STORED).prepare()


def test_connections_that_commit_every_statement_are_refused(connect: Connect) -> None:
    """The row that is tried would stay."""

    def committing() -> Any:
        connection = connect()
        if isinstance(connection, sqlite3.Connection):
            connection.isolation_level = None
        else:
            connection.autocommit = True
        return connection

    with pytest.raises(MuntinError, match="commits every statement, and a batch is one transaction"):
        target(committing)


@pytest.mark.parametrize(
    ("style", "marks", "parameters", "name"),
    [
        ("qmark", ["?", "?"], (1, 2), '"a""%"'),
        ("numeric", [":1", ":2"], (1, 2), '"a""%"'),
        ("named", [":p1", ":p2"], {"p1": 1, "p2": 2}, '"a""%"'),
        ("format", ["%s", "%s"], (1, 2), '"a""%%"'),
        ("pyformat", ["%(p1)s", "%(p2)s"], {"p1": 1, "p2": 2}, '"a""%%"'),
    ],
)
def test_every_style_of_parameters(style: str, marks: list[str], parameters: Any, name: str) -> None:
    driver = Driver(style)
    assert driver.placeholders(2) == marks
    assert driver.parameters([1, 2]) == parameters
    assert driver.quoted('a"%') == name
