"""`scan()`: files as input, read by tasks with Arrow; and the data source behind it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from muntin.checks import one_of
from muntin.errors import MuntinError
from muntin.files.file_set import FileSet, Format
from muntin.files.listing import list_files
from muntin.files.logical import logical
from muntin.files.parquet import Parquet
from muntin.files.paths import given_paths, resolved
from muntin.files.reading import file_schema, read
from muntin.files.shares import cut
from muntin.query.scan import Scan
from muntin.spark import session
from muntin.spark.columns import sensitive_to_case
from muntin.spark.types import result_fields, schema_to_spark

_FORMATS: dict[str, Format] = {"parquet": Parquet()}
Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def scan(spark: SparkSession, path: Any, format: str = "parquet", schema: Any = None) -> Scan:  # noqa: A002
    """Read files with Arrow, and aggregate them where they are read: rows never enter Spark's JVM.

    `muntin.over` takes a scan in place of a DataFrame, and returns the same rows as with a DataFrame of the same files.

    Parameters
    ----------
    spark
        The session.
    path
        A file, a folder, or a pattern such as "rides/*.parquet", or a list of them. Folders are read with the folders
        in them. Names that begin with a dot or an underscore are left out.
    format
        How the files are written: "parquet".
    schema
        The columns: a Spark schema, or its string form such as "t timestamp, route string, fare double". By default,
        those of the first file. A column that a file does not have is null.

    Examples
    --------
    >>> rides = muntin.scan(spark, "rides/")
    >>> muntin.over(rides, W.sliding("1 hour", "1 minute"), time="pickup", by="route").agg(trips=A.count()).to_df()
    """
    if not hasattr(type(spark), "readStream"):
        raise MuntinError(f"spark must be a Spark session, got {type(spark).__name__}; make one with muntin.session().")
    given = given_paths(path)
    of_files = _FORMATS[one_of(format, "format", dict.fromkeys(_FORMATS, ""))]
    filesystem, paths = resolved(given)
    files = FileSet(given, paths, filesystem, of_files, pa.schema([]), sensitive_to_case(spark))
    columns = _inferred(files) if schema is None else result_fields(schema)
    return Scan(spark, FileSet(given, paths, filesystem, of_files, columns, files.case_sensitive))


def _inferred(files: FileSet) -> pa.Schema:
    """The columns of the first file, without those of types that Muntin does not read."""
    listed = list_files(files.filesystem, files.paths)
    if not listed:
        shown = ", ".join(map(repr, files.given))
        raise MuntinError(f"There are no files at {shown} to take the columns from; give schema=, or check path.")
    columns = [(field.name, logical(field.type)) for field in file_schema(files, listed[0])]
    return pa.schema([(name, kind) for name, kind in columns if kind is not None])


def frame_of(data: Any) -> Any:
    """A scan as a DataFrame of its rows; anything else as it is."""
    return data.to_df() if isinstance(data, Scan) else data


def plain(scan: Scan) -> DataFrame:
    """The rows of the files as a DataFrame."""
    return through(scan, scan.files.schema.names, iter, schema_to_spark(scan.files.schema))


def through(scan: Scan, names: Sequence[str], stage: Stage, rows: T.StructType) -> DataFrame:
    """The files' rows, with the columns of these names, after a stage that runs where they are read."""
    spark = scan.spark
    source = _source(f"muntin_files_{uuid.uuid4().hex}", scan.files, tuple(names), stage, rows, session.tasks(spark))
    spark.dataSource.register(source)
    frame: DataFrame = spark.read.format(source.name()).load()
    return frame


def _source(
    source_name: str, files: FileSet, names: tuple[str, ...], stage: Stage, rows: T.StructType, tasks: int
) -> type[DataSource]:
    """A data source of its own for every query. Spark sends the class to the workers, with all that it refers to."""

    class Files(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> T.StructType:
            return rows

        def reader(self, schema: T.StructType) -> DataSourceReader:
            return TableReader(files, names, stage, tasks)

    return Files


class TableReader(DataSourceReader):
    """All files that there are when the query runs."""

    def __init__(self, files: FileSet, names: tuple[str, ...], stage: Stage, tasks: int) -> None:
        self._files = files
        self._names = names
        self._stage = stage
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        listed = list_files(self._files.filesystem, self._files.paths)
        # Without files, too, one task runs: it reports that there are no rows.
        return [InputPartition(share) for share in cut(listed, self._tasks) or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._stage(read(self._files, partition.value, self._names))
