"""Conditions: three-valued logic, NaN, the texts that are understood, and the row groups that are left out."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from muntin.files.conditions import Condition
from muntin.files.file_set import FileSet, Piece
from muntin.files.listing import list_files
from muntin.files.parquet import Parquet
from muntin.files.reading import Wanted, read, relevant
from muntin.files.shares import whole
from muntin.files.sql import condition_of

NAN = float("nan")
TYPES = {
    "n": pa.int32(),
    "x": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "d": pa.decimal128(6, 2),
    "day": pa.date32(),
    "t": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
    "f": pa.float32(),
    "list": pa.list_(pa.int32()),
    "two words": pa.int64(),
}


def understood(text: str, **others: Any) -> Condition:
    condition = condition_of(text, TYPES, **others)
    assert condition is not None, text
    copy: Condition = pickle.loads(pickle.dumps(condition))  # as it is sent to the tasks
    return copy


def of(text: str, **values: Any) -> Any:
    columns = {name: pa.array([values.get(name)], kind) for name, kind in TYPES.items()}
    return understood(text).of(columns)[0].as_py()


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("n > 2", {"n": 3}, True),
        ("n > 2", {"n": None}, None),
        ("2 < n", {"n": 3}, True),
        ("n > 2.5", {"n": 2}, False),
        ("n = 30000000000", {"n": 2}, False),
        ("n = 2.0", {"n": 2}, True),
        ("n <> -1", {"n": -1}, False),
        ("N == 2", {"n": 2}, True),
        ("`two words` >= n", {"n": 2, "two words": 2}, True),
        ("x > 5", {"x": NAN}, True),
        ("x >= 5", {"x": NAN}, True),
        ("x < 5", {"x": NAN}, False),
        ("x != 5", {"x": NAN}, True),
        ("x = x", {"x": NAN}, True),
        ("x <= x", {"x": NAN}, True),
        ("x > x", {"x": NAN}, False),
        ("x = x", {"x": None}, None),
        ("x IS NULL", {"x": NAN}, False),
        ("x = 0", {"x": -0.0}, True),
        ("f = 0.5", {"f": 0.5}, True),
        ("f = 0.1", {"f": 0.1}, False),
        ("s = 'it'", {"s": "it"}, True),
        ("s IN ('a', 'b')", {"s": "c"}, False),
        ("s NOT IN ('a', 'b')", {"s": None}, None),
        ("n in (1, 2.5)", {"n": 1}, True),
        ("b", {"b": True}, True),
        ("NOT b", {"b": None}, None),
        ("b = FALSE", {"b": False}, True),
        ("d > 1.005", {"d": Decimal("1.01")}, True),
        ("d = 100000", {"d": Decimal("1.01")}, False),
        ("day >= '2024-02-29'", {"day": date(2024, 2, 29)}, True),
        ("day < DATE '2024-02-29'", {"day": date(2024, 2, 28)}, True),
        ("t = '2024-01-01 01:00:00'", {"t": datetime(2024, 1, 1, 1, tzinfo=timezone.utc)}, True),
        ("t < TIMESTAMP '2024-01-01'", {"t": datetime(2023, 1, 1, tzinfo=timezone.utc)}, True),
        ("local BETWEEN '2024-01-01' AND '2024-01-02'", {"local": datetime(2024, 1, 1, 5)}, True),
        ("n NOT BETWEEN 1 AND 3", {"n": 2}, False),
        ("list IS NOT NULL", {"list": [1]}, True),
        ("n > 1 OR x > 1", {"n": 2}, True),
        ("n > 1 AND x > 1", {"n": 2}, None),
        ("n > 1 AND x > 1", {"n": 0}, False),
        ("NOT n = 1 AND NOT (x = 1 OR s = 'a')", {"n": 2, "x": 2.0, "s": "b"}, True),
        ("n = 1 OR n = 2 AND s = 'b'", {"n": 1, "s": "c"}, True),
    ],
)
def test_values(text: str, values: dict[str, Any], expected: bool | None) -> None:
    assert of(text, **values) is expected


@pytest.mark.parametrize(
    "text",
    [
        "", "n", "n +1 > 2", "n > ", "upper(s) = 'A'", "n % 2 = 1", "s LIKE 'a%'", "s > 3", "n = '3'", "none = 1",
        "n = null", "n <=> 1", "list = 1", "s = 'it''s'", r"s = 'a\n'", "n > 1 n", "day = '2024-02-30'", "day > t",
        "day IN ('2024-02-29')", "n > 1e3", "n > 1L", "b > false", "s.a = 1", "1 = 1", "(n > 1", "n IN ()",
        "n BETWEEN 1", "f = 16777217", "t > DATE '2024-01-01'", "local > TIMESTAMP '2024-01-01'", "s = 'a' 'b'",
        "n = 99999999999999999999999999999999999999999", "n IS DISTINCT FROM 3", "CASE WHEN b THEN b END", "n.b",
        "n > -x", "NOT", "n = 1 -- 2", "n = 1 /* 2 */", "s = \"a\"", "x > n", "n IS", "current_date = day",
    ],
)  # fmt: skip
def test_what_is_left_to_spark(text: str) -> None:
    assert condition_of(text, TYPES) is None


def test_names_and_zones() -> None:
    assert condition_of("N = 1", TYPES, case_sensitive=True) is None
    assert condition_of("n = 1", {"n": pa.int8(), "N": pa.int8()}) is None
    assert condition_of("t > '2024-01-01'", TYPES, zone="no zone") is None
    at = datetime(2024, 1, 1, 5, tzinfo=timezone.utc)
    condition = understood("t = '2024-01-01'", zone="America/New_York")
    assert condition.of({"t": pa.array([at], TYPES["t"])}).to_pylist() == [True]


NUMBER = st.integers(-3, 3) | st.none()


@given(
    st.lists(st.tuples(NUMBER, NUMBER), max_size=40),
    st.integers(1, 5),
    st.sampled_from(
        [
            "n > 1", "n <= -1", "n = 2", "n IN (0, 3)", "n BETWEEN -1 AND 1", "n > 0 AND m < 0", "n > 2 OR m > 2",
            "NOT n > 1", "n != 0", "n IS NULL", "m IS NOT NULL AND m >= 2", "n < m",
        ]
    ),
)  # fmt: skip
def test_rows_that_files_have(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int | None, int | None]], group: int, text: str
) -> None:
    """Whatever row groups are left out, the rows are those for which the condition is true."""
    path = tmp_path_factory.mktemp("where") / "0.parquet"
    table = pa.table({"n": pa.array([n for n, _ in rows], pa.int64()), "m": pa.array([m for _, m in rows], pa.int32())})
    pq.write_table(table, path, row_group_size=group)
    schema = pa.schema([("n", pa.int64()), ("m", pa.int32())])
    condition = condition_of(text, {field.name: field.type for field in schema})
    assert condition is not None
    files = FileSet((str(path),), (str(path),), fs.LocalFileSystem(), Parquet(), schema, where=condition)
    share = whole(list_files(files.filesystem, files.paths))
    batches = list(read(files, share, Wanted(["m"], {"flag": condition})))
    expected = table.filter(condition.of({name: table.column(name).combine_chunks() for name in ("n", "m")}))
    assert [row["m"] for batch in batches for row in batch.to_pylist()] == expected.column("m").to_pylist()
    assert all(row["flag"] for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize(
    ("text", "read_groups"),
    [("n > 15", 1), ("n = 12", 1), ("t >= '1970-01-01 00:00:12'", 1), ("n < 0", 0), ("x > 100", 2), ("NOT n > 15", 2)],
)
def test_row_groups_are_left_out(tmp_path: Path, text: str, read_groups: int) -> None:
    path = tmp_path / "0.parquet"
    times = pa.array([second * 1_000_000 for second in range(20)], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"n": range(20), "t": times, "x": [1.0] * 20}), path, row_group_size=10)
    file = list_files(fs.LocalFileSystem(), [str(path)])[0]
    types = {"n": pa.int64(), "t": times.type, "x": pa.float64()}
    condition = condition_of(text, types)
    assert condition is not None
    with path.open("rb") as source:
        opened = Parquet().open(source, [])
        rows = sum(batch.num_rows for batch in opened.read(Piece(file, 0, file.size), types, condition.possible))
    assert rows == 10 * read_groups


def test_folders_are_left_out(tmp_path: Path) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"n": [1]}), tmp_path / f"day={day}" / "0.parquet")
    schema = pa.schema([("n", pa.int64()), ("day", pa.date32())])
    condition = condition_of("day > '2024-01-01' AND n > 0", {field.name: field.type for field in schema})
    place = (str(tmp_path),)
    files = FileSet(place, place, fs.LocalFileSystem(), Parquet(), schema, where=condition)
    pieces = relevant(files, whole(list_files(files.filesystem, files.paths)))
    assert [piece.file.path for piece in pieces] == [str(tmp_path / "day=2024-01-02" / "0.parquet")]
