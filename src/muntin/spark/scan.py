"""`scan()`: files as input, read by tasks with Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import EllipsisType
from typing import Any, get_args

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from muntin.checks import flag, one_of, whole_number
from muntin.errors import MuntinError
from muntin.files import partitions
from muntin.files.conditions import Condition
from muntin.files.delta import DeltaLog
from muntin.files.file_set import BadFiles, FileSet
from muntin.files.file_stream import Limits
from muntin.files.formats import format_of
from muntin.files.listing import base_of, list_files
from muntin.files.logical import logical
from muntin.files.paths import given_paths, resolved
from muntin.files.reading import Wanted, first_schema, matched
from muntin.query.scan import Scan, Stream
from muntin.spark.columns import sensitive_to_case
from muntin.spark.scan_source import check_streams, through
from muntin.spark.types import result_fields, schema_to_spark

FILES_PER_BATCH = 1_000
LOG = "_muntin_scan"
"""The folder for lists of files, where the files are. Spark and Muntin do not read what begins with an underscore."""
_MOST = 1 << 62


def scan(
    spark: SparkSession,
    path: Any,
    format: str = "parquet",  # noqa: A002
    schema: Any = None,
    *,
    max_rows_per_batch: int | None = None,
    max_files_per_batch: int | EllipsisType | None = ...,
    streaming: bool = False,
    bad_files: BadFiles = "error",
    filesystem: Any = None,
    options: Mapping[str, Any] | None = None,
    where: str | None = None,
    log: Any = None,
) -> Scan:
    """Read files with Arrow, and aggregate them where they are read: rows never enter Spark's JVM.

    `muntin.over` takes a scan in place of a DataFrame, and returns the same rows as with a DataFrame of the same files.

    Parameters
    ----------
    spark
        The session.
    path
        A file, a folder, or a pattern such as "rides/*.parquet", or a list of them. Folders are read with the folders
        in them. Names that begin with a dot or an underscore are left out. Paths such as "s3://bucket/rides" work for
        all file systems of Arrow and fsspec.
    format
        How the files are written: "parquet", "csv", "json" (an object on each line) or "arrow". "delta" reads the
        latest version of a Delta table, and needs the package deltalake.
    schema
        The columns: a Spark schema, or its string form such as "t timestamp, route string, fare double". By default,
        those of the first file, and those in the paths such as `date=2024-01-01/`. A column that a file does not have
        is null.
    max_rows_per_batch
        How many rows a batch of a stream has at most, for Parquet and Arrow. Row groups are not divided.
    max_files_per_batch
        How many files a batch of a stream has at most: 1,000 by default, None for no limit.
    streaming
        Whether the files are a stream: those that are there, and those that appear while the query runs.
    bad_files
        What happens to files that vanish, change or cannot be read: "error" ends the query, and "skip" leaves them out
        and counts them in `muntin.progress(query).skipped_files`.
    filesystem
        The file system of the paths: one of `pyarrow.fs` or of fsspec. By default, the paths say it.
    options
        How CSV is written: "header", "sep", "quote", "escape" and "nullValue", as in Spark.
    where
        The rows that are read: a simple SQL condition such as "fare > 0 AND route IS NOT NULL". Row groups of Parquet,
        and folders, without such rows are not read.
    log
        A folder in which a stream keeps the list of its files. By default, one called `_muntin_scan` where they are.

    Examples
    --------
    >>> table.write.parquet(folder + "/rides")
    >>> fares(muntin.scan(spark, folder + "/rides")).to_df().count()
    2
    """
    if not hasattr(type(spark), "readStream"):
        raise MuntinError(f"spark must be a Spark session, got {type(spark).__name__}; make one with muntin.session().")
    given = given_paths(path)
    flag(streaming, "streaming")
    zone = spark.conf.get("spark.sql.session.timeZone", "UTC") or "UTC"
    of_files = format_of(format, options, zone)
    one_of(bad_files, "bad_files", dict.fromkeys(get_args(BadFiles), ""))
    limits = _limits(max_rows_per_batch, max_files_per_batch, streaming, format, of_files.counts_rows)
    system, paths = resolved(given, filesystem)
    catalog = _delta(given, paths, filesystem, streaming) if format == "delta" else None
    files = FileSet(
        given, paths, system, of_files, pa.schema([]), sensitive_to_case(spark), bad_files, catalog=catalog, zone=zone
    )
    stream = _stream(files, limits, log) if streaming else None
    if log is not None and not streaming:
        raise MuntinError("log is for streams, and this is a table; leave it out, or give streaming=True.")
    columns = _inferred(files) if schema is None else result_fields(schema)
    of_files.check(columns)
    if streaming:
        check_streams()
        _check_there(files)
    files = replace(files, schema=columns)
    return Scan(spark, files if where is None else replace(files, where=_condition(files, where)), stream)


def _condition(files: FileSet, where: Any) -> Condition:
    condition = files.condition(where) if isinstance(where, str) else None
    if condition is None:
        raise MuntinError(
            f"where={where!r} is not a condition that scan can compute while it reads: comparisons of columns with "
            "values or other columns, IN, BETWEEN, IS NULL, AND, OR and NOT. Check the names of columns, or filter the "
            "rows of scan(...).to_df() in Spark."
        )
    return condition


def _limits(rows: Any, files: Any, streaming: bool, of_files: str, counted: bool) -> Limits:
    given = {"max_rows_per_batch": rows, "max_files_per_batch": None if files is ... else files}
    for name, value in given.items():
        if value is not None:
            given[name] = whole_number(value, name, _MOST, optional=True)
            if not streaming:
                raise MuntinError(
                    f"{name} is for streams, and this is a table, which has no batches; give streaming=True."
                )
    if rows is not None and not counted:
        raise MuntinError(
            f"max_rows_per_batch is {rows!r}, but {of_files} files do not say how many rows they have; give "
            "max_files_per_batch."
        )
    return Limits(given["max_rows_per_batch"], FILES_PER_BATCH if files is ... else given["max_files_per_batch"])


def _stream(files: FileSet, limits: Limits, log: Any) -> Stream:
    if log is not None:
        try:
            system, (folder,) = resolved(given_paths(log))
        except (MuntinError, ValueError) as error:
            raise MuntinError(f"log must be a folder, got {log!r}: {error}") from error
        return Stream(limits, system, folder)
    base = base_of(files.paths[0])
    if files.filesystem.get_file_info(base).type == fs.FileType.File:
        base = base.rpartition("/")[0]
    return Stream(limits, files.filesystem, f"{base.rstrip('/')}/{LOG}")


def _check_there(files: FileSet) -> None:
    """Check that there is a folder in which files can appear. Object stores have no empty folders."""
    for given, path in zip(files.given, files.paths, strict=True):
        local = isinstance(files.filesystem, fs.LocalFileSystem)
        if local and files.filesystem.get_file_info(base_of(path)).type == fs.FileType.NotFound:
            raise MuntinError(f"There is nothing at {given!r}; check the path, or make the folder first.")


def _delta(given: Sequence[str], paths: Sequence[str], filesystem: Any, streaming: bool) -> DeltaLog:
    """The log of a Delta table."""
    if len(given) > 1 or base_of(paths[0]) != paths[0]:
        raise MuntinError(f"path must be the folder of one Delta table, got {', '.join(map(repr, given))}.")
    if filesystem is not None:
        raise MuntinError("filesystem is not for Delta tables, whose log deltalake reads; give path with a scheme.")
    if streaming:
        raise MuntinError(
            "streaming=True is not for Delta tables: optimizing, updating and deleting write rows anew that a stream "
            "has read already. Use spark.readStream.format('delta')."
        )
    return DeltaLog(given[0] if "://" in given[0] else paths[0], paths[0])


def _inferred(files: FileSet) -> pa.Schema:
    """The columns of the first file, without those of types that Muntin does not read, and those of the paths."""
    if files.catalog is not None:
        return files.catalog.schema()
    listed = list_files(files.filesystem, files.paths)
    if not listed:
        shown = ", ".join(map(repr, files.given))
        raise MuntinError(f"There are no files at {shown} to take the columns from; give schema=, or check path.")
    columns = [(field.name, logical(field.type)) for field in first_schema(files, listed)]
    readable = {name: kind for name, kind in columns if kind is not None}
    for name, kind in partitions.inferred(listed).items():
        own = matched(list(readable), [name], files.case_sensitive)
        readable[own.get(name, name)] = kind
    return pa.schema(list(readable.items()))


def frame_of(data: Any) -> Any:
    """A scan as a DataFrame of its rows; anything else as it is."""
    return data.to_df() if isinstance(data, Scan) else data


def plain(scan: Scan) -> DataFrame:
    """The rows of the files as a DataFrame."""
    return through(scan, Wanted(scan.files.schema.names), iter, schema_to_spark(scan.files.schema))
