"""Columns in the paths: their values, and the types that Spark finds for them."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from muntin import MuntinError
from muntin.files.file_set import File, FileSet
from muntin.files.listing import list_files
from muntin.files.parquet import Parquet
from muntin.files.partitions import NULL, inferred, scalar, values
from muntin.files.reading import Wanted, read
from muntin.files.shares import whole
from muntin.files.zones import UTC


def file(*folders: str) -> File:
    return File("/".join(["/in", *folders, "0.parquet"]), 1, 0, len("/in"))


def test_values() -> None:
    assert values(file("a=1", "b%20c=x%2Fy", "plain", f"n={NULL}")) == {"a": "1", "b c": "x/y", "n": None}
    assert values(File("/date=1/in/a=2/0.parquet", 1, 0, len("/date=1/in"))) == {"a": "2"}


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2"], pa.int32()),
        (["01", NULL], pa.int32()),
        (["1", "3000000000"], pa.int64()),
        (["1", "1" * 20], pa.decimal128(20, 0)),
        (["1.5", "2"], pa.float64()),
        (["1.5", "3000000000"], pa.string()),
        (["2024-01-01", NULL], pa.date32()),
        (["2024-02-30"], pa.string()),
        (["2024-01-01", "2024-01-01 10%3A00%3A00"], UTC),
        (["2024-01-01", "1"], pa.string()),
        (["x", "1"], pa.string()),
        ([NULL], pa.string()),
        (["1_000"], pa.string()),
    ],
)
def test_types(texts: list[str], kind: pa.DataType) -> None:
    assert inferred(file(f"a={text}") for text in texts) == {"a": kind}
    assert inferred(file(f"a={text}") for text in reversed(texts)) == {"a": kind}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", pa.int32(), 7),
        ("7", pa.float64(), 7.0),
        ("7", pa.string(), "7"),
        ("7", pa.decimal128(20, 0), Decimal(7)),
        ("2024-01-01", pa.date32(), date(2024, 1, 1)),
        ("2024-01-01", UTC, datetime(2024, 1, 1, 5, tzinfo=timezone.utc)),
        ("2024-01-01 00:00:00", pa.timestamp("us"), datetime(2024, 1, 1)),
        (None, pa.int32(), None),
        ("TRUE", pa.bool_(), True),
    ],
)
def test_scalars(text: str | None, kind: pa.DataType, value: Any) -> None:
    found = scalar(text, pa.field("a", kind), file(), "America/New_York")
    assert (found.type, found.as_py()) == (kind, value)


@pytest.mark.parametrize(("text", "kind"), [("x", pa.int32()), ("300", pa.int8()), ("x", pa.list_(pa.int8()))])
def test_a_value_of_another_type(text: str, kind: pa.DataType) -> None:
    with pytest.raises(MuntinError, match=r"The path of the file .* says a="):
        scalar(text, pa.field("a", kind), file(), "UTC")


def test_rows_have_them(tmp_path: Path) -> None:
    """Those in the path count, also where the file has a column of that name."""
    for day in ("2024-01-01", "2024-01-02", NULL):
        (tmp_path / f"Day={day}").mkdir()
        pq.write_table(pa.table({"n": [1, 2], "day": ["in", "file"]}), tmp_path / f"Day={day}" / "0.parquet")
    schema = pa.schema([("day", pa.date32()), ("n", pa.int64())])
    place = str(tmp_path)
    of = FileSet((place,), (place,), fs.LocalFileSystem(), Parquet(), schema)
    table = pa.Table.from_batches(read(of, whole(list_files(of.filesystem, of.paths)), Wanted(["day", "n"])))
    assert table.to_pydict() == {
        "day": [date(2024, 1, 1)] * 2 + [date(2024, 1, 2)] * 2 + [None] * 2,
        "n": [1, 2] * 3,
    }
