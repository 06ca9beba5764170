"""`muntin.upsert()`: writes results so that a table has the latest revision of each window and key."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.checks import flag, one_of
from muntin.errors import MuntinError, suggest
from muntin.sinks.database import DatabaseTarget
from muntin.sinks.delta import DeltaTarget
from muntin.sinks.drivers import is_storable
from muntin.sinks.fitting import check_columns
from muntin.sinks.merge import merge_statement, quoted, table_name
from muntin.sinks.revisions import RETRACTED, Revisions
from muntin.spark.columns import quietly, short_reason
from muntin.spark.roles import KEYS, columns_with
from muntin.spark.types import to_arrow

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Format = Literal["delta", "iceberg-sql", "dbapi"]
Write = Callable[[DataFrame, int], None]

_FORMATS = {
    "delta": "a Delta table",
    "iceberg-sql": "an Iceberg table, or another that Spark's MERGE INTO takes",
    "dbapi": "a table of SQLite, PostgreSQL or another database with a driver of Python's DB-API",
}
_DELTA_EXTENSION = "DeltaSparkSessionExtension"


def upsert(
    results: DataFrame,
    target: str | PathLike[str] | Sequence[str],
    *,
    format: Format,  # noqa: A002 - as in Spark's writers
    by: str | Sequence[str] | None = None,
    connect: Callable[[], Any] | None = None,
    check: bool = True,
) -> DataStreamWriter:
    """Write the results of a stream so that a table has one row for each window and key: the latest.

    Returns Spark's writer: give it a checkpoint and start it. A batch that is written again after a failure changes
    nothing, so the table is right whenever the stream ends or is killed. If there is no such table, it is made. If
    there is one that does not take the results, this call fails.

    Parameters
    ----------
    results
        The results of a streaming query, with updates or without. Windows that are retracted are deleted.
    target
        The table: for Delta its path or its name, else its name, such as "db.fares" or ("db", "fares").
    format
        "delta" merges with Spark if the session has Delta's extension, else with the package deltalake. "iceberg-sql"
        merges with Spark. "dbapi" uses `INSERT … ON CONFLICT`.
    by
        The columns that identify a row beside its window. By default they are the keys of the query, which are marked
        in the metadata of the columns.
    connect
        For "dbapi": a function that opens a connection, such as `lambda: psycopg.connect("dbname=rides")`.
    check
        For "dbapi": whether to try an existing table with a row that is rolled back.

    Examples
    --------
    >>> results = fares(streamed).emit("on_change").to_df()
    >>> writer = muntin.upsert(results, folder + "/fares", format="delta")
    >>> query = writer.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
    >>> query.awaitTermination()
    >>> import deltalake
    >>> deltalake.DeltaTable(folder + "/fares").to_pyarrow_table().num_rows
    2
    """
    _check_format(format)
    flag(check, "check")
    _check_results(results)
    if (connect is not None) != (format == "dbapi"):
        raise MuntinError(
            "connect is missing: format='dbapi' needs a function that opens a connection, such as "
            "connect=lambda: sqlite3.connect('fares.db')."
            if connect is None
            else f"connect opens a connection to a database, and format is {format!r}; leave it out."
        )
    rows = results if connect is None else _flat(results)
    revisions = Revisions(
        tuple(name for name in rows.columns if name != RETRACTED), _identity(results, by), RETRACTED in rows.columns
    )
    if connect is not None:
        write = _to_database(rows, revisions, target, connect, check)
    else:
        write = _to_table(rows, revisions, target, format)
    return rows.writeStream.outputMode("append").foreachBatch(write)


def _check_format(given: object) -> None:
    if given == "parquet":
        raise MuntinError(
            "format is 'parquet', whose files cannot be updated: write results with writeStream.format('parquet'), and "
            "read the rows with the largest revision; or give 'delta'."
        )
    one_of(given, "format", _FORMATS)


def _check_results(results: object) -> None:
    if not isinstance(results, DataFrame):
        raise MuntinError(
            f"results must be the streaming DataFrame that to_df() returns, got {type(results).__name__}."
        )
    if not results.isStreaming:
        raise MuntinError(
            "results are a table, which has each window and key once; write it with results.write, or give the results "
            "of a stream."
        )
    if "window_id" not in results.columns:
        raise MuntinError("results have no column 'window_id'; give the results of a query, with this column.")
    if "late" in results.columns:
        raise MuntinError(
            "results have late rows, of no window, by late('emit'); write them elsewhere, and give "
            "results.where('late IS NULL').drop('late', 'lateness')."
        )
    if "partial" in results.columns:
        raise MuntinError(
            "results have incomplete windows, by max_wait, which have a complete row later; give "
            "results.where('NOT partial').drop('partial')."
        )


def _identity(results: DataFrame, by: Any) -> tuple[str, ...]:
    """The columns that identify a window and key."""
    window = ["window_name", "window_id"] if "window_name" in results.columns else ["window_id"]
    if by is None:
        if not columns_with(results, "id"):
            raise MuntinError(
                "results do not mark what identifies a row: a function returns any number of rows for a window, or the "
                "metadata of the columns was lost; name the columns that identify a row beside its window with by=."
            )
        keys = [*columns_with(results, "key"), *columns_with(results, "own_key")]
        if results.schema["window_id"].metadata.get(KEYS, len(keys)) != len(keys):
            raise MuntinError(
                "results do not have all keys of their query, so several rows of a batch would be the same row of the "
                "target; keep the keys, or name the columns that identify a row beside its window with by=."
            )
        return (*window, *keys)
    named = [by] if isinstance(by, str) else list(by) if isinstance(by, Sequence) else [by]
    for key in named:
        if not isinstance(key, str):
            raise MuntinError(f"by must be the names of columns of results, got {key!r}.")
        if key not in results.columns:
            raise MuntinError(f"by column {key!r} is not in results. {suggest(key, results.columns)}")
    return tuple(dict.fromkeys([*window, *named]))


def _flat(results: DataFrame) -> DataFrame:
    """The results without the struct `window`, which databases do not have."""
    if "window" not in results.columns:
        return results
    bounds = [F.col("window")[side].alias(f"window_{side}") for side in ("start", "end")]
    others = [F.col(quoted(name)) for name in results.columns if name != "window"]
    for name in ("window_start", "window_end"):
        if name in results.columns:
            raise MuntinError(f"results have a column {name!r}, which is where the window goes; rename it.")
    return results.select(*bounds, *others)


def _schema(rows: DataFrame) -> pa.Schema:
    """The columns of the rows, with their types."""
    fields = []
    for field in rows.schema:
        kind = to_arrow(field.dataType)
        if kind is None:
            raise MuntinError(
                f"column {field.name!r} of results is of type {field.dataType.simpleString()}, which cannot be written "
                "so; cast or drop it."
            )
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _to_database(rows: DataFrame, revisions: Revisions, target: Any, connect: Any, check: bool) -> Write:
    if not callable(connect):
        raise MuntinError(
            f"connect must be a function that opens a connection, such as lambda: sqlite3.connect('fares.db'), got "
            f"{connect!r}."
        )
    schema = _schema(rows)
    for field in schema:
        kind = rows.schema[field.name].dataType.simpleString()
        if not is_storable(field.type):
            raise MuntinError(
                f"column {field.name!r} of results is of type {kind}, which databases do not have in common; drop it, "
                f"or write it as text: results.withColumn({field.name!r}, F.to_json({field.name!r}))."
            )
        if field.name in revisions.identity and pa.types.is_floating(field.type):
            raise MuntinError(
                f"key {field.name!r} is of type {kind}, by which a database does not find its rows again: NaN is "
                "unequal to itself there. Cast it to a string before the query."
            )
    stored = pa.schema([field for field in schema if field.name in revisions.columns])
    table = DatabaseTarget(connect, _name_parts(target), revisions, stored)
    table.prepare(check)
    return _on_driver(table.write, schema)


def _to_table(rows: DataFrame, revisions: Revisions, target: Any, kind: str) -> Write:
    spark = rows.sparkSession
    path = _path(target)
    by_spark = kind != "delta" or _DELTA_EXTENSION in (spark.conf.get("spark.sql.extensions", "") or "")
    if by_spark:
        if path is not None and kind != "delta":
            raise MuntinError(f"target is {target!r}, a path; format={kind!r} needs the name of a table.")
        name = table_name(_name_parts(target)) if path is None else f"delta.{quoted(path)}"
        fields = [T.StructField(field.name, field.dataType) for field in rows.schema if field.name != RETRACTED]
        _prepare_by_spark(spark, name, path, T.StructType(fields), "delta" if kind == "delta" else "iceberg")
        return _merging(name, revisions)
    if path is None:
        raise MuntinError(
            f"target is {target!r}, the name of a table, which the session cannot merge into without Delta's "
            "extension; give the path of the table, or configure the session as Delta's documentation says."
        )
    schema = _schema(rows)
    stored = pa.schema([field for field in schema if field.name in revisions.columns])
    table = DeltaTarget(path, revisions, stored)
    table.prepare()
    return _on_driver(table.write, schema)


def _on_driver(write: Callable[[pa.Table], None], schema: pa.Schema) -> Write:
    """Writes a batch from the driver. It is collected by a single job: a second would run the query again."""

    def write_batch(batch: DataFrame, number: int) -> None:
        rows = batch.toArrow()
        if rows.num_rows:
            write(rows.cast(schema))

    return write_batch


def _merging(target: str, revisions: Revisions) -> Write:
    """Merges a batch by Spark."""

    def merge(batch: DataFrame, number: int) -> None:
        batch.persist()  # MERGE may read it more than once
        view = f"muntin_upsert_{uuid.uuid4().hex}"
        try:
            if batch.count():
                batch.createOrReplaceTempView(view)
                batch.sparkSession.sql(merge_statement(target, view, revisions))
        finally:
            batch.sparkSession.catalog.dropTempView(view)
            batch.unpersist()

    return merge


def _prepare_by_spark(spark: SparkSession, name: str, path: str | None, schema: T.StructType, provider: str) -> None:
    """Make the table if there is none; else check that its columns fit."""
    try:
        with quietly():
            existing = spark.table(name).schema
    except PySparkException as error:
        if not (error.getCondition() or "").startswith(("TABLE_OR_VIEW_NOT_FOUND", "DELTA_", "PATH_NOT_FOUND")):
            raise MuntinError(f"target {name} cannot be read: {short_reason(error)}") from error
        empty = spark.createDataFrame([], schema)
        try:
            if path is not None:
                empty.write.format(provider).save(path)
            else:
                empty.writeTo(name).using(provider).create()
        except PySparkException as failed:
            raise MuntinError(f"target {name} cannot be made: {short_reason(failed)}") from failed
        return
    given = {field.name: field.dataType.simpleString() for field in schema}
    check_columns(name, given, {field.name: (field.dataType.simpleString(), field.nullable) for field in existing})


def _path(target: Any) -> str | None:
    """The target as a path; None if it is the name of a table."""
    if isinstance(target, PathLike):
        return str(fspath(target))
    return target if isinstance(target, str) and ("/" in target or "\\" in target) else None


def _name_parts(target: Any) -> tuple[str, ...]:
    parts = target.split(".") if isinstance(target, str) else target
    if isinstance(parts, list | tuple) and parts and all(isinstance(part, str) and part for part in parts):
        return tuple(parts)
    raise MuntinError(f"target must be the name of a table, such as 'fares' or ('db', 'fares'), got {target!r}.")
