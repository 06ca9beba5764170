"""Tables of databases, by any driver of Python's DB-API whose SQL has `INSERT … ON CONFLICT`: SQLite, PostgreSQL, …

The driver of the stream writes each batch in one transaction, so readers see whole batches. A batch that is written
again, after a failure, changes nothing. Names are quoted, and values are parameters: nothing of the data is SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import MuntinError
from muntin.sinks.drivers import Driver, is_same, trial_row
from muntin.sinks.revisions import RETRACTED, REVISION, Revisions


@dataclass(frozen=True)
class DatabaseTarget:
    """A table, and the rows that it takes."""

    connect: Callable[[], Any]
    """Opens a connection; each batch has its own."""
    table: tuple[str, ...]
    """The name, with the schema in front if it has one."""
    rows: Revisions
    schema: pa.Schema
    """The columns of the table with their types."""

    def prepare(self, check: bool = True) -> None:
        """Make the table if there is none; else write a row to it, compare it, and take it back."""
        with self._connection() as connection:
            driver = Driver.of(connection)
            if not self._exists(connection, driver):
                self._create(connection, driver)
            elif check:
                self._try(connection, driver)

    def write(self, batch: pa.Table) -> None:
        """Write a batch in one transaction. Its columns are those of the table, and `retracted` if there is one."""
        with self._connection() as connection:
            driver = Driver.of(connection)
            cursor = connection.cursor()
            if self.rows.retracts:
                gone = pc.fill_null(batch[RETRACTED], False)
                self._delete(cursor, driver, batch.filter(gone))
                batch = batch.filter(pc.invert(gone))
            null_key = _any_null(batch, self.rows.identity)
            self._upsert(cursor, driver, batch.filter(pc.invert(null_key)))
            self._upsert_each(cursor, driver, batch.filter(null_key))
            connection.commit()

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        connection = self.connect()
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        finally:
            connection.close()

    def _exists(self, connection: Any, driver: Driver) -> bool:
        try:
            connection.cursor().execute(f"SELECT 1 FROM {self._name(driver)} WHERE 1 = 0", driver.parameters(()))
        except Exception:  # every driver has its own error
            return False
        finally:
            connection.rollback()
        return True

    def _create(self, connection: Any, driver: Driver) -> None:
        try:
            # With parameters, even none: drivers that read %% as a percent sign do so only then.
            connection.cursor().execute(self._definition(driver), driver.parameters(()))
        except Exception as error:
            raise MuntinError(
                f"target {'.'.join(self.table)!r} cannot be read, and cannot be made: {_reason(error)}"
            ) from error
        connection.commit()

    def _definition(self, driver: Driver) -> str:
        """The statement that makes the table. A primary key would allow no null, which is a key like any other."""
        columns = ", ".join(f"{driver.quoted(field.name)} {driver.type_of(field.type)}" for field in self.schema)
        name = self._name(driver)
        identity = _listed(driver, self.rows.identity)
        return f"CREATE TABLE {name} ({columns}, UNIQUE ({identity}))"

    def _try(self, connection: Any, driver: Driver) -> None:
        """Write a row that no results have, read it, and roll back: what does not fit, fails before the stream."""
        row = trial_row({field.name: field.type for field in self.schema})
        given = {name: driver.values(row[name])[0] for name in row.column_names}
        identity = self.rows.identity
        cursor = connection.cursor()
        try:
            self._upsert(cursor, driver, row)
            names, condition = _listed(driver, row.column_names), _condition(driver, identity)
            cursor.execute(
                f"SELECT {names} FROM {self._name(driver)} WHERE {condition}",
                driver.parameters([given[name] for name in identity]),
            )
            stored = cursor.fetchone()
        except Exception as error:
            raise self._misfit(driver, _reason(error)) from error
        finally:
            connection.rollback()
        if stored is None:
            raise self._misfit(driver, "a row that was written is not there.")
        for found, (name, value) in zip(stored, given.items(), strict=True):
            if not is_same(found, value):
                raise self._misfit(driver, f"column {name!r} turns {value!r} into {found!r}.")

    def _misfit(self, driver: Driver, reason: str) -> MuntinError:
        return MuntinError(
            f"target {'.'.join(self.table)!r} does not take these results: {reason} "
            f"It fits if it is made by: {self._definition(driver)}"
        )

    def _upsert(self, cursor: Any, driver: Driver, rows: pa.Table) -> None:
        """Insert rows whose keys are not null, or update those that are there."""
        if not rows.num_rows:
            return
        columns = self.rows.columns
        changes = ", ".join(f"{driver.quoted(name)} = excluded.{driver.quoted(name)}" for name in self.rows.others)
        revision = driver.quoted(REVISION)
        newer = f" WHERE excluded.{revision} > target.{revision}" if self.rows.counted else ""
        action = f"DO UPDATE SET {changes}{newer}" if changes else "DO NOTHING"
        conflict = f"ON CONFLICT ({_listed(driver, self.rows.identity)}) {action}"
        _execute_all(cursor, driver, f"{self._insertion(driver, ' AS target')} {conflict}", rows, columns)

    def _insertion(self, driver: Driver, alias: str = "") -> str:
        columns = self.rows.columns
        values = ", ".join(driver.placeholders(len(columns)))
        return f"INSERT INTO {self._name(driver)}{alias} ({_listed(driver, columns)}) VALUES ({values})"

    def _upsert_each(self, cursor: Any, driver: Driver, rows: pa.Table) -> None:
        """The same for rows with a null in their keys, which are unequal to a unique index."""
        names, identity, others = self.rows.columns, self.rows.identity, self.rows.others
        columns = [driver.values(rows[name]) for name in names]
        for values in zip(*columns, strict=True):
            row = dict(zip(names, values, strict=True))
            present = [name for name in identity if row[name] is not None]
            condition = _condition(driver, identity, present, after=0)
            shown = driver.quoted(REVISION) if self.rows.counted else "1"
            key = [row[name] for name in present]
            cursor.execute(f"SELECT {shown} FROM {self._name(driver)} WHERE {condition}", driver.parameters(key))
            stored = cursor.fetchone()
            if stored is None:
                cursor.execute(self._insertion(driver), driver.parameters(values))
            elif others and (not self.rows.counted or row[REVISION] > stored[0]):
                marks = driver.placeholders(len(others))
                changes = ", ".join(f"{driver.quoted(name)} = {mark}" for name, mark in zip(others, marks, strict=True))
                condition = _condition(driver, identity, present, after=len(others))
                cursor.execute(
                    f"UPDATE {self._name(driver)} SET {changes} WHERE {condition}",
                    driver.parameters([*(row[name] for name in others), *key]),
                )

    def _delete(self, cursor: Any, driver: Driver, rows: pa.Table) -> None:
        """Delete the rows of retracted windows, those with nulls in the same keys together."""
        identity, counted = self.rows.identity, self.rows.counted
        while rows.num_rows:
            first = rows.slice(0, 1)
            present = [name for name in identity if first[name][0].is_valid]
            alike = pa.array([True] * rows.num_rows)
            for name in identity:
                valid = pc.is_valid(rows[name])
                alike = pc.and_(alike, valid if name in present else pc.invert(valid))
            condition = _condition(driver, identity, present)
            read = list(present)
            if counted:
                mark = driver.placeholders(len(present) + 1)[-1]
                condition += f" AND {driver.quoted(REVISION)} < {mark}"
                read.append(REVISION)
            statement = f"DELETE FROM {self._name(driver)} WHERE {condition}"
            _execute_all(cursor, driver, statement, rows.filter(alike), read)
            rows = rows.filter(pc.invert(alike))

    def _name(self, driver: Driver) -> str:
        return ".".join(map(driver.quoted, self.table))


def _execute_all(cursor: Any, driver: Driver, statement: str, rows: pa.Table, columns: Sequence[str]) -> None:
    values = zip(*(driver.values(rows[name]) for name in columns), strict=True)
    cursor.executemany(statement, [driver.parameters(row) for row in values])


def _listed(driver: Driver, names: Sequence[str]) -> str:
    return ", ".join(map(driver.quoted, names))


def _condition(driver: Driver, identity: Sequence[str], present: Sequence[str] | None = None, after: int = 0) -> str:
    """The condition of a row with this identity, whose present columns are parameters after so many others."""
    present = identity if present is None else present
    marks = dict(zip(present, driver.placeholders(after + len(present))[after:], strict=True))
    return " AND ".join(
        f"{driver.quoted(name)} = {marks[name]}" if name in marks else f"{driver.quoted(name)} IS NULL"
        for name in identity
    )


def _any_null(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    null = pc.is_null(rows[names[0]])
    for name in names[1:]:
        null = pc.or_(null, pc.is_null(rows[name]))
    return null


def _reason(error: Exception) -> str:
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()
    return line if line.endswith(".") else f"{line}."
