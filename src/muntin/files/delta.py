"""Delta tables: the files of the latest version, by the table's log, with the partition values that it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.files.file_set import File
from muntin.files.logical import logical
from muntin.files.parquet import Parquet

_READ = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
"""Features of tables that can be read, some of them only where they are not used."""
_PARTITION = "partition."


@dataclass(frozen=True)
class Delta(Parquet):
    """The files are Parquet."""

    name: str = "delta"


@dataclass(frozen=True)
class DeltaLog:
    uri: str
    root: str
    """The folder of the table in its file system."""

    def files(self) -> list[File]:
        """The files of the latest version, in the order of their names."""
        table = _opened(self.uri)
        _check(table, self.uri)
        actions = pa.table(table.get_add_actions(flatten=True))
        parts = [name for name in actions.column_names if name.startswith(_PARTITION)]
        rows = actions.select(["path", "size_bytes", "modification_time", *parts]).to_pylist()
        return sorted(File(*self._place(row), self._values(row, parts)) for row in rows if row["size_bytes"])

    def schema(self) -> pa.Schema:
        """The columns of the table, without those of types that Muntin does not read."""
        table = _opened(self.uri)
        _check(table, self.uri)
        columns = [(field.name, logical(field.type)) for field in pa.schema(table.schema().to_arrow())]
        return pa.schema([(name, kind) for name, kind in columns if kind is not None])

    def _place(self, row: dict[str, Any]) -> tuple[str, int, int, int]:
        path = unquote(row["path"])
        if "://" in path or path.startswith("/"):
            raise MuntinError(
                f"The Delta table {self.uri!r} has files outside its folder, such as {path!r}, as a shallow clone has; "
                "muntin.scan does not read these. Use spark.read.format('delta')."
            )
        return f"{self.root}/{path}", row["size_bytes"], row["modification_time"] * 1_000_000, 0

    def _values(self, row: dict[str, Any], parts: list[str]) -> tuple[tuple[str, str | None], ...]:
        found = ((part.removeprefix(_PARTITION), row[part]) for part in parts)
        return tuple((name, None if value is None else _text(value)) for name, value in found)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _opened(uri: str) -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise MuntinError("format='delta' needs the package deltalake: pip install 'muntin[delta]'.") from error
    try:
        return deltalake.DeltaTable(uri)
    except Exception as error:  # of whatever store that is
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise MuntinError(f"There is no Delta table at {uri!r} that can be read: {reason}. Check the path.") from error


def _check(table: Any, uri: str) -> None:
    """Check that reading the files of a table as they are is reading the table."""
    unknown = sorted(set(table.protocol().reader_features or ()) - _READ)
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        unknown.append("columnMapping, by which columns have other names in files")
    # Earlier versions of deltalake do not read tables with deletion vectors themselves.
    vectors = table.deletion_vectors() if hasattr(table, "deletion_vectors") else ()
    if any(pa.record_batch(batch).num_rows for batch in vectors):
        unknown.append("deletionVectors, by which rows of files are deleted")
    if unknown:
        raise MuntinError(
            f"The Delta table {uri!r} uses {' and '.join(unknown)}; muntin.scan does not read that. Use "
            "spark.read.format('delta')."
        )
