"""Reading: the rows of shares are those of the files, whatever the row groups, in the types of the schema."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from muntin import MuntinError
from muntin.files.file_set import File, FileSet, Piece
from muntin.files.listing import list_files
from muntin.files.logical import logical
from muntin.files.parquet import Parquet
from muntin.files.reading import Skipped, Wanted, file_schema, first_schema, matched, read
from muntin.files.shares import whole

LOCAL = fs.LocalFileSystem()


def files(folder: Path, schema: pa.Schema, case_sensitive: bool = False) -> FileSet:
    return FileSet((str(folder),), (str(folder),), LOCAL, Parquet(), schema, case_sensitive)


def rows(of: FileSet, *names: str) -> pa.Table:
    share = [Piece(file, 0, file.size) for file in list_files(LOCAL, of.paths)]
    return pa.Table.from_batches(read(of, share, Wanted(names)), pa.schema([of.schema.field(name) for name in names]))


def written(folder: Path, **columns: Any) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@given(st.integers(0, 40), st.integers(1, 12), st.lists(st.integers(0, 4000), max_size=6))
def test_every_row_is_in_one_piece(
    tmp_path_factory: pytest.TempPathFactory, count: int, group: int, cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("pieces") / "a.parquet"
    pq.write_table(pa.table({"n": range(count)}), path, row_group_size=group)
    file = list_files(LOCAL, [str(path)])[0]
    edges = sorted({0, file.size, *(cut for cut in cuts if cut < file.size)})
    share = [Piece(file, begin, end) for begin, end in pairwise(edges)]
    batches = list(read(files(path, pa.schema([("n", pa.int64())])), share, Wanted(["n"])))
    assert [n for batch in batches for n in batch.column("n").to_pylist()] == list(range(count))


def test_small_files_are_read_together(tmp_path: Path) -> None:
    for number in range(5):
        written(tmp_path, n=[number])
    share = [Piece(file, 0, file.size) for file in list_files(LOCAL, [str(tmp_path)])]
    batches = list(read(files(tmp_path, pa.schema([("n", pa.int64())])), share, Wanted(["n"])))
    assert [batch.num_rows for batch in batches] == [5]


def test_little_of_a_file_is_in_memory(tmp_path: Path) -> None:
    count, group = 1 << 21, 1 << 16
    table = pa.table({"n": np.random.default_rng(0).random(count)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=group, compression="none", use_dictionary=False)
    file = list_files(LOCAL, [str(tmp_path)])[0]
    before, most, found = pa.total_allocated_bytes(), 0, 0
    for batch in read(files(tmp_path, table.schema), [Piece(file, 0, file.size)], Wanted(["n"])):
        most, found = max(most, pa.total_allocated_bytes() - before), found + batch.num_rows
    assert found == count
    assert most < table.nbytes / 2 - (1 << 20)  # a few batches of 2 MB, of 16 MB


def test_columns_that_files_lack_are_null(tmp_path: Path) -> None:
    written(tmp_path, a=[1], b=["x"])
    written(tmp_path, c=[1.5])
    schema = pa.schema([("a", pa.int64()), ("c", pa.float64()), ("d", pa.string())])
    assert rows(files(tmp_path, schema), "c", "a", "d").to_pylist() == [
        {"c": None, "a": 1, "d": None},
        {"c": 1.5, "a": None, "d": None},
    ]
    assert rows(files(tmp_path, schema), "d").to_pylist() == [{"d": None}, {"d": None}]


def test_names_in_another_case(tmp_path: Path) -> None:
    written(tmp_path, Fare=[1], fare=[2])
    written(tmp_path, FARE=[3])
    schema = pa.schema([("fare", pa.int64())])
    assert rows(files(tmp_path, schema), "fare").to_pydict() == {"fare": [2, 3]}
    assert rows(files(tmp_path, schema, case_sensitive=True), "fare").to_pydict() == {"fare": [2, None]}
    assert matched(["A", "a", "b"], ["a", "B", "c"], False) == {"a": "a", "B": "b"}


def test_names_with_dots(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": [{"x": 1}], "s.x": ["flat"]}), tmp_path / "0.parquet")
    schema = pa.schema([("s", pa.struct([("x", pa.int64())])), ("s.x", pa.string())])
    assert rows(files(tmp_path, schema), "s.x").to_pydict() == {"s.x": ["flat"]}
    assert rows(files(tmp_path, schema), "s").to_pydict() == {"s": [{"x": 1}]}


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (pa.array([1, None], pa.int32()), pa.int64(), [1, None]),
        (pa.array([3, 255], pa.uint8()), pa.int16(), [3, 255]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
        (pa.array([-1, 1500], pa.timestamp("ns")).cast(pa.timestamp("ns")), pa.timestamp("us"), [-1, 1]),
        (pa.array([1], pa.timestamp("ms", tz="Europe/Berlin")), pa.timestamp("us", tz="UTC"), [1000]),
        (pa.array([5], pa.duration("s")), pa.int64(), [5]),
    ],
)
def test_types_of_files(tmp_path: Path, column: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    written(tmp_path, x=column)
    found = rows(files(tmp_path, pa.schema([("x", kind)])), "x").column("x")
    assert found.type == kind
    plain = found.cast(pa.int64()) if pa.types.is_timestamp(kind) else found
    assert plain.to_pylist() == expected


def test_old_timestamps(tmp_path: Path) -> None:
    times = pa.array([-1_000_001, 0, 10**15], pa.timestamp("us"))
    pq.write_table(pa.table({"t": times}), tmp_path / "0.parquet", use_deprecated_int96_timestamps=True)
    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        assert rows(files(tmp_path, pa.schema([("t", kind)])), "t").column("t").combine_chunks() == times.cast(kind)


def test_old_timestamps_are_points_in_time(tmp_path: Path) -> None:
    """Spark writes and reads them so; others are with or without a zone, as the file says."""
    times = pa.array([0], pa.timestamp("us"))
    columns = {"t": times, "s": pa.StructArray.from_arrays([times, pa.array([1])], ["t", "n"])}
    pq.write_table(pa.table(columns), tmp_path / "0.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(pa.table(columns), tmp_path / "1.parquet")
    utc, local = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
    of = files(tmp_path, pa.schema([]))
    for file, kind in zip(list_files(LOCAL, of.paths), (utc, local), strict=True):
        assert file_schema(of, file) == pa.schema([("t", kind), ("s", pa.struct([("t", kind), ("n", pa.int64())]))])
    found = rows(files(tmp_path / "0.parquet", pa.schema([("s", pa.struct([("t", utc), ("n", pa.int64())]))])), "s")
    assert found.column("s").combine_chunks().field(0) == times.cast(utc)


@pytest.mark.parametrize(
    "kind", [pa.time64("us"), pa.list_(pa.time32("s")), pa.struct([("a", pa.month_day_nano_interval())])]
)
def test_types_without_a_counterpart(kind: pa.DataType) -> None:
    assert logical(kind) is None


def test_nested_types() -> None:
    kind = pa.map_(pa.large_string(), pa.large_list(pa.struct([("n", pa.uint32()), ("d", pa.decimal128(5, 2))])))
    assert logical(kind) == pa.map_(pa.string(), pa.list_(pa.struct([("n", pa.int64()), ("d", pa.decimal128(5, 2))])))


class TestBadFiles:
    def test_vanished(self, tmp_path: Path) -> None:
        path = written(tmp_path, n=[1])
        listed = list_files(LOCAL, [str(path)])[0]
        path.unlink()
        with pytest.raises(MuntinError, match=r"0.parquet' has vanished since it was listed"):
            list(read(files(tmp_path, pa.schema([("n", pa.int64())])), [Piece(listed, 0, listed.size)], Wanted(["n"])))

    def test_changed(self, tmp_path: Path) -> None:
        listed = list_files(LOCAL, [str(written(tmp_path, n=[1]))])[0]
        share = [Piece(File(listed.path, listed.size - 1, 0), 0, listed.size)]
        with pytest.raises(MuntinError, match=r"0.parquet' has changed: it had .* must be complete when they appear"):
            list(read(files(tmp_path, pa.schema([("n", pa.int64())])), share, Wanted(["n"])))

    def test_damaged(self, tmp_path: Path) -> None:
        path = written(tmp_path, n=[1])
        path.write_bytes(path.read_bytes()[:-6])
        with pytest.raises(MuntinError, match=r"0.parquet' cannot be read: .*write it anew"):
            rows(files(tmp_path, pa.schema([("n", pa.int64())])), "n")

    def test_skipped(self, tmp_path: Path) -> None:
        """One file has vanished, one has changed and one is damaged; the others are read."""
        for number in range(5):
            pq.write_table(pa.table({"n": [number]}), tmp_path / f"{number}.parquet")
        of_all = replace(files(tmp_path, pa.schema([("n", pa.int64())])), bad_files="skip")
        damaged = tmp_path / "0.parquet"
        damaged.write_bytes(damaged.read_bytes()[:-6] + b"no end")
        listed = list_files(LOCAL, [str(tmp_path)])
        (tmp_path / "1.parquet").unlink()
        (tmp_path / "2.parquet").write_bytes(b"")
        skipped = Skipped()
        batches = list(read(of_all, whole(listed), Wanted(["n"]), skipped))
        assert pa.Table.from_batches(batches)["n"].to_pylist() == [3, 4]
        assert skipped.count == 3
        assert first_schema(of_all, listed).names == ["n"]
        with pytest.raises(MuntinError, match=r"0.parquet' cannot be read"):
            first_schema(replace(of_all, bad_files="error"), listed)
        with pytest.raises(MuntinError, match=r"2.parquet' cannot be read"):
            first_schema(of_all, listed[:3])

    def test_of_another_type(self, tmp_path: Path) -> None:
        written(tmp_path, n=["one"])
        with pytest.raises(MuntinError, match=r"Column 'n' of the file .*string and cannot be read as bigint"):
            rows(files(tmp_path, pa.schema([("n", pa.int64())])), "n")
