"""Delta tables without Spark's Delta extension: the package deltalake merges each batch, on the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.files.logical import logical
from muntin.sinks.fitting import check_columns
from muntin.sinks.revisions import RETRACTED, REVISION, Revisions
from muntin.type_names import spark_name


@dataclass(frozen=True)
class DeltaTarget:
    """A table at a path, and the rows that it takes."""

    path: str
    rows: Revisions
    schema: pa.Schema
    """The columns of the target with their types."""

    def prepare(self) -> None:
        """Make the table if there is none; else check that its columns fit."""
        deltalake = _deltalake()
        if deltalake.DeltaTable.is_deltatable(self.path):
            check_columns(
                repr(self.path), {field.name: spark_name(field.type) for field in self.schema}, self._existing()
            )
            return
        nothing = next((field.name for field in self.schema if pa.types.is_null(field.type)), None)
        if nothing is not None:
            raise MuntinError(f"column {nothing!r} is of type void, which no table stores; cast it.")
        deltalake.DeltaTable.create(self.path, deltalake.Schema.from_arrow(self.schema))

    def _existing(self) -> dict[str, tuple[str, bool]]:
        fields = pa.schema(_deltalake().DeltaTable(self.path).schema().to_arrow())
        kinds = {field.name: logical(field.type) for field in fields}
        return {
            field.name: (
                str(field.type) if kinds[field.name] is None else spark_name(kinds[field.name]),
                field.nullable,
            )
            for field in fields
        }

    def write(self, batch: pa.Table) -> None:
        """Merge a batch; a batch that is written again changes nothing."""
        rows = self.rows
        same = " AND ".join(
            f"(target.{_quoted(name)} IS NOT DISTINCT FROM source.{_quoted(name)})" for name in rows.identity
        )
        newer = [f"source.{_quoted(REVISION)} > target.{_quoted(REVISION)}"] if rows.counted else []
        retracted = [f"source.{_quoted(RETRACTED)}"] if rows.retracts else []
        merger = _deltalake().DeltaTable(self.path).merge(batch, same, source_alias="source", target_alias="target")
        if retracted:
            merger = merger.when_matched_delete(" AND ".join([*retracted, *newer]))
        if rows.others:
            merger = merger.when_matched_update(_assigned(rows.others), " AND ".join(newer) or None)
        merger = merger.when_not_matched_insert(_assigned(rows.columns), f"NOT {retracted[0]}" if retracted else None)
        merger.execute()


def _assigned(names: tuple[str, ...]) -> dict[str, str]:
    return {_quoted(name): f"source.{_quoted(name)}" for name in names}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _deltalake() -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise MuntinError(
            "format='delta' needs Delta's extension in the Spark session, or the package deltalake: "
            "pip install 'muntin[delta]'."
        ) from error
    return deltalake
