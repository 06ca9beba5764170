"""A scan as the user has it: files in place of a DataFrame."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from muntin.files.file_set import FileSet
from muntin.files.file_stream import Limits
from muntin.type_names import spark_name
from muntin.written import call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Stream:
    """What a scan needs beyond its files to be a stream."""

    limits: Limits
    log_filesystem: fs.FileSystem
    log_folder: str


@dataclass(frozen=True, repr=False, eq=False)
class Scan:
    """Files that tasks read with Arrow, made by `muntin.scan()`. `over()` takes it in place of a DataFrame."""

    spark: Any
    """The session."""
    files: FileSet
    stream: Stream | None = None
    """None for a table."""

    def __repr__(self) -> str:
        paths = self.files.given
        columns = ", ".join(f"{field.name} {spark_name(field.type)}" for field in self.files.schema)
        given = paths[0] if len(paths) == 1 else list(paths)
        streaming = {} if self.stream is None else {"streaming": True}
        return f"{call('scan', given, format=self.files.format.name, **streaming)}: {columns}"

    def to_df(self) -> DataFrame:
        """Return the rows of the files as a plain DataFrame, with all columns."""
        frame: DataFrame = importlib.import_module("muntin.spark.scan").plain(self)
        return frame
