"""The data source behind a scan: what Spark asks of it as a table and as a stream."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from muntin.errors import MuntinError
from muntin.files.file_set import FileSet, Piece
from muntin.files.file_stream import FileStream, Position
from muntin.files.listing import files_of
from muntin.files.reading import Skipped, Wanted, read, relevant
from muntin.files.shares import cut, whole
from muntin.query.scan import Scan, Stream
from muntin.spark import session
from muntin.spark.bounded import ReadAllAvailable, SupportsTriggerAvailableNow

Stage: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Report: TypeAlias = Callable[[int], pa.RecordBatch]


def check_streams() -> None:
    if ReadAllAvailable is None:
        raise MuntinError(
            "streaming=True needs PySpark 4.2 or later: earlier versions do not say where a stream continues. Use "
            "spark.readStream in place of the scan."
        )


@dataclass(frozen=True)
class Share:
    """How tasks read their shares: what they read, and the stage behind them."""

    files: FileSet
    wanted: Wanted
    stage: Stage
    report: Report | None
    """Makes a row that reports how many files were skipped."""
    tasks: int

    def read(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        skipped = Skipped()
        yield from self.stage(read(self.files, pieces, self.wanted, skipped))
        if skipped.count and self.report is not None:
            yield self.report(skipped.count)


def through(scan: Scan, wanted: Wanted, stage: Stage, rows: T.StructType, report: Report | None = None) -> DataFrame:
    """The files' rows, after a stage that runs where they are read."""
    spark = scan.spark
    share = Share(scan.files, wanted, stage, report, session.tasks(spark))
    source = _source(f"muntin_files_{uuid.uuid4().hex}", share, scan.stream, rows)
    spark.dataSource.register(source)
    reader = spark.read if scan.stream is None else spark.readStream
    frame: DataFrame = reader.format(source.name()).load()
    return frame


def _source(source_name: str, share: Share, stream: Stream | None, rows: T.StructType) -> type[DataSource]:
    """A data source of its own for every query. Spark sends the class to the workers, with all that it refers to."""

    class Files(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> T.StructType:
            return rows

        def reader(self, schema: T.StructType) -> DataSourceReader:
            return TableReader(share)

        def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:  # noqa: N802
            assert stream is not None
            return StreamReader(share, stream)

    return Files


class TableReader(DataSourceReader):
    """All files that there are when the query runs."""

    def __init__(self, share: Share) -> None:
        self._share = share

    def partitions(self) -> list[InputPartition]:
        files = self._share.files
        listed = files_of(files)
        # Without files, too, one task runs: it reports that there are no rows.
        return [InputPartition(pieces) for pieces in cut(relevant(files, whole(listed)), self._share.tasks) or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._share.read(partition.value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Files as they appear. Spark keeps offsets in the checkpoint, and the log says which files they mean."""

    def __init__(self, share: Share, stream: Stream) -> None:
        self._share = share
        self._limits = stream.limits
        self._stream = FileStream(share.files, stream.limits, stream.log_filesystem, stream.log_folder)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return Position().offset

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stream.end_with_what_is_there()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        return self._stream.after(Position.of(start), not isinstance(limit, ReadAllAvailable)).offset

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        # Spark hands the limit back to `latestOffset`, and has no class for two limits at once: ours count.
        from pyspark.sql.streaming.datasource import ReadMaxFiles

        limited = self._limits.rows is not None or self._limits.files is not None
        return ReadMaxFiles(self._limits.files or 1) if limited else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        end = self._stream.end
        return None if end is None else end.offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        shares = self._stream.shares(Position.of(start), Position.of(end), self._share.tasks)
        # Without anything relevant, too, one task runs: it shows that there were files.
        return [InputPartition(pieces) for pieces in shares or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._share.read(partition.value)
