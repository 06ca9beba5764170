"""Delta tables: the rows of the latest version, with partition values of the log; what cannot be read is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from muntin import MuntinError
from muntin.files.delta import Delta, DeltaLog
from muntin.files.file_set import FileSet
from muntin.files.listing import files_of
from muntin.files.reading import Wanted, read
from muntin.files.shares import whole

TABLE = pa.table(
    {
        "t": pa.array([1, 2, 3, 4], pa.timestamp("us", tz="UTC")),
        "n": [1, 2, 3, 4],
        "part": ["a b", "x/y=z", None, "a b"],
        "day": pa.array([0, 1, 2, None], pa.date32()),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    write_deltalake(folder, TABLE, partition_by=["part", "day"])
    write_deltalake(folder, TABLE.slice(0, 1), mode="append")
    DeltaTable(folder).delete("n = 2")
    return folder


def rows(folder: Path) -> list[dict[str, Any]]:
    log = DeltaLog(str(folder), str(folder))
    files = FileSet((str(folder),), (str(folder),), fs.LocalFileSystem(), Delta(), log.schema(), catalog=log)
    wanted = Wanted(files.schema.names)
    found = pa.Table.from_batches(read(files, whole(files_of(files)), wanted), files.schema)
    return sorted(found.to_pylist(), key=lambda row: row["n"])


def test_rows_are_those_of_the_latest_version(table: Path) -> None:
    expected = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert rows(table) == sorted(expected, key=lambda row: row["n"])
    assert [row["n"] for row in rows(table)] == [1, 1, 3, 4]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(MuntinError, match=r"There is no Delta table at .*none'"):
        DeltaLog(str(tmp_path / "none"), "").schema()


def _append(table: Path, action: dict[str, Any]) -> None:
    (table / "_delta_log" / f"{DeltaTable(table).version() + 1:020d}.json").write_text(json.dumps(action) + "\n")


def test_features_that_it_cannot_read(table: Path) -> None:
    metadata = next(
        action["metaData"]
        for line in (table / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
        if "metaData" in (action := json.loads(line))
    )
    _append(table, {"metaData": {**metadata, "configuration": {"delta.columnMapping.mode": "name"}}})
    with pytest.raises(MuntinError, match=r"uses columnMapping, .*Use spark.read.format\('delta'\)"):
        rows(table)


def test_files_elsewhere(table: Path) -> None:
    add = {"path": "file:///elsewhere/0.parquet", "partitionValues": {"part": "a", "day": None}, "size": 9,
           "modificationTime": 0, "dataChange": True}  # fmt: skip
    _append(table, {"add": add})
    with pytest.raises(MuntinError, match="has files outside its folder"):
        rows(table)


def test_without_the_package(table: Path) -> None:
    with (
        patch.dict(sys.modules, {"deltalake": None}),
        pytest.raises(MuntinError, match=r"pip install 'muntin\[delta\]'"),
    ):
        rows(table)
