"""Formats: CSV, JSON lines and Arrow, in pieces and as a whole, in the types of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from muntin import MuntinError
from muntin.files.file_set import File, FileSet, Piece
from muntin.files.formats import format_of
from muntin.files.listing import list_files
from muntin.files.reading import Skipped, Wanted, file_schema, read, row_places
from muntin.files.shares import whole
from muntin.files.zones import points_in_time

LOCAL = fs.LocalFileSystem()
UTC = pa.timestamp("us", tz="UTC")
NEW_YORK = "America/New_York"


def files(path: Path, form: str, schema: pa.Schema, bad_files: Any = "error", **options: Any) -> FileSet:
    of_files = format_of(form, options or None, NEW_YORK)
    return FileSet((str(path),), (str(path),), LOCAL, of_files, schema, bad_files=bad_files, zone=NEW_YORK)


def rows(of: FileSet, *names: str, cuts: Sequence[int] = ()) -> list[dict[str, Any]]:
    """The rows of all files, each cut at these places."""
    share = []
    for file in list_files(LOCAL, of.paths):
        edges = sorted({0, file.size, *(cut for cut in cuts if 0 < cut < file.size)})
        share += [Piece(file, begin, end) for begin, end in pairwise(edges)]
    schema = pa.schema([of.schema.field(name) for name in names or of.schema.names])
    found: list[dict[str, Any]] = pa.Table.from_batches(read(of, share, Wanted(schema.names)), schema).to_pylist()
    return found


class TestCsv:
    SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])

    def test_quotes_and_breaks(self, tmp_path: Path) -> None:
        (tmp_path / "0.csv").write_text('a,b\n1,"two\nlines"\n2,"say ""so"", twice"\n3,\n4,""\n\n')
        expected = [
            {"a": 1, "b": "two\nlines"}, {"a": 2, "b": 'say "so", twice'}, {"a": 3, "b": None}, {"a": 4, "b": None}
        ]  # fmt: skip
        assert rows(files(tmp_path, "csv", self.SCHEMA)) == expected
        assert rows(files(tmp_path, "csv", self.SCHEMA), cuts=[3, 9, 15, 30]) == expected

    def test_only_what_is_asked_for(self, tmp_path: Path) -> None:
        (tmp_path / "0.csv").write_text("a,b\nnot a number,x\n")
        assert rows(files(tmp_path, "csv", self.SCHEMA), "b") == [{"b": "x"}]

    def test_headers(self, tmp_path: Path) -> None:
        """A line with names of the schema is a header, in any order; without one, columns are in the schema's order."""
        (tmp_path / "0.csv").write_text("B,a\nx,1\n")
        (tmp_path / "1.csv").write_text("2,y\n")
        (tmp_path / "2.csv").write_text("b\nz\n")
        (tmp_path / "3.csv").write_text("a,b\n")
        assert rows(files(tmp_path, "csv", self.SCHEMA)) == [
            {"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": None, "b": "z"}
        ]  # fmt: skip
        texts = pa.schema([("a", pa.string()), ("b", pa.string())])
        assert rows(files(tmp_path / "3.csv", "csv", texts, header=False)) == [{"a": "a", "b": "b"}]
        assert rows(files(tmp_path / "1.csv", "csv", texts, header=True)) == []

    def test_options(self, tmp_path: Path) -> None:
        (tmp_path / "0.csv").write_text("1|'x|y'\n-|'it\\'s'\n")
        form = {"sep": "|", "quote": "'", "escape": "\\", "nullValue": "-"}
        assert rows(files(tmp_path, "csv", self.SCHEMA, **form)) == [{"a": 1, "b": "x|y"}, {"a": None, "b": "it's"}]

    def test_types(self, tmp_path: Path) -> None:
        (tmp_path / "0.csv").write_text(
            "1.50,2024-02-29,true,NaN,2024-03-10 02:30:00,2024-03-10 02:30:00\n"
            ",,FALSE,-Infinity,2024-07-01T12:00:00.25Z,1969-12-31 23:59:59.999999\n"
            ",,,,,\n"
        )
        schema = pa.schema([("d", pa.decimal128(9, 2)), ("day", pa.date32()), ("f", pa.bool_()), ("x", pa.float64()),
                            ("t", UTC), ("local", pa.timestamp("us"))])  # fmt: skip
        first, second, third = rows(files(tmp_path, "csv", schema))
        assert (first["d"], first["day"], first["f"]) == (Decimal("1.50"), date(2024, 2, 29), True)
        assert str(first["x"]) == "nan"
        # This time does not exist in New York: Java moves it by the hour that was left out.
        assert first["t"] == datetime(2024, 3, 10, 7, 30, tzinfo=timezone.utc)
        assert first["local"] == datetime(2024, 3, 10, 2, 30)
        assert second["t"] == datetime(2024, 7, 1, 12, 0, 0, 250_000, tzinfo=timezone.utc)
        assert second["local"] == datetime(1969, 12, 31, 23, 59, 59, 999_999)
        assert (second["f"], second["x"]) == (False, float("-inf"))
        assert set(third.values()) == {None}

    def test_a_value_of_another_type(self, tmp_path: Path) -> None:
        (tmp_path / "0.csv").write_text("one,x\n")
        with pytest.raises(MuntinError, match=r"0.csv' cannot be read: .*one"):
            rows(files(tmp_path, "csv", self.SCHEMA))
        skipped = Skipped()
        of = files(tmp_path, "csv", self.SCHEMA, bad_files="skip")
        assert list(read(of, whole(list_files(LOCAL, of.paths)), Wanted(["a"]), skipped)) == []
        assert skipped.count == 1

    def test_inferred(self, tmp_path: Path) -> None:
        (tmp_path / "0.csv").write_text("a,t,day,x,s,e\n1,2024-01-01 10:00:00,2024-01-01,0.5,z,\n")
        of = files(tmp_path, "csv", pa.schema([]))
        assert file_schema(of, list_files(LOCAL, of.paths)[0]) == pa.schema(
            [("a", pa.int64()), ("t", UTC), ("day", pa.date32()), ("x", pa.float64()), ("s", pa.string()),
             ("e", pa.string())]
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"header": 3}, r"options\['header'\] must be True or False"),
            ({"sep": ",,"}, r"options\['sep'\] must be one character"),
            ({"separator": ","}, "options has 'separator', which scan does not know"),
        ],
    )
    def test_mistakes(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(MuntinError, match=message):
            format_of("csv", options, "UTC")


class TestJson:
    @given(st.lists(st.text(max_size=12), max_size=12), st.lists(st.integers(0, 300), max_size=6), st.booleans())
    def test_every_line_is_in_one_piece(
        self, tmp_path_factory: pytest.TempPathFactory, texts: list[str], cuts: list[int], ends: bool
    ) -> None:
        path = tmp_path_factory.mktemp("json") / "0.json"
        frame = pa.table({"s": pa.array(texts, pa.string())}).to_pandas()
        text = frame.to_json(orient="records", lines=True)
        path.write_text(text if ends else text.rstrip("\n"))
        found = rows(files(path, "json", pa.schema([("s", pa.string())])), cuts=cuts)
        assert [row["s"] for row in found] == texts

    def test_types(self, tmp_path: Path) -> None:
        (tmp_path / "0.json").write_text(
            '{"d": 1.50, "t": "2024-07-01T08:00:00.5-04:00", "s": {"n": [1, null]}, "more": {"x": 1}}\n'
            '{"t": "2024-07-01 08:00:00", "b": true, "day": "2024-02-29"}\n'
            '{"x": 3, "s": null}\n'
        )
        schema = pa.schema([("d", pa.decimal128(9, 2)), ("t", UTC), ("s", pa.struct([("n", pa.list_(pa.int32()))])),
                            ("b", pa.bool_()), ("day", pa.date32()), ("x", pa.float64())])  # fmt: skip
        first, second, third = rows(files(tmp_path, "json", schema))
        noon = datetime(2024, 7, 1, 12, tzinfo=timezone.utc)
        assert first == {"d": Decimal("1.50"), "t": noon + timedelta(seconds=0.5), "s": {"n": [1, None]}, "b": None,
                         "day": None, "x": None}  # fmt: skip
        assert second == {"d": None, "t": noon, "s": None, "b": True, "day": date(2024, 2, 29), "x": None}
        assert third["x"] == 3.0
        assert rows(files(tmp_path, "json", schema), "b") == [{"b": None}, {"b": True}, {"b": None}]

    def test_damaged(self, tmp_path: Path) -> None:
        (tmp_path / "0.json").write_text('{"n": 1}\n{"n": ')
        with pytest.raises(MuntinError, match=r"0.json' cannot be read: "):
            rows(files(tmp_path, "json", pa.schema([("n", pa.int64())])))

    def test_inferred(self, tmp_path: Path) -> None:
        (tmp_path / "0.json").write_text('{"a": 1, "t": "2024-01-01 10:00:00", "e": null, "s": {"x": [0.5]}}\n')
        of = files(tmp_path, "json", pa.schema([]))
        assert file_schema(of, list_files(LOCAL, of.paths)[0]) == pa.schema(
            [("a", pa.int64()), ("t", UTC), ("e", pa.string()), ("s", pa.struct([("x", pa.list_(pa.float64()))]))]
        )

    @pytest.mark.parametrize(
        "kind", [pa.binary(), pa.list_(UTC), pa.struct([("x", pa.date32())]), pa.map_(pa.string(), pa.int64())]
    )
    def test_types_that_have_no_form(self, kind: pa.DataType) -> None:
        with pytest.raises(MuntinError, match=r"schema's column 'x' .* does not read from json"):
            format_of("json", None, "UTC").check(pa.schema([("x", kind)]))


class TestArrow:
    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("cuts", [[], [1, 100, 400, 401, 700]])
    def test_pieces(self, tmp_path: Path, stream: bool, cuts: list[int]) -> None:
        table = pa.table({"n": range(20), "s": ["x"] * 20, "k": pa.array(["a", "b"] * 10).dictionary_encode()})
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        with new(tmp_path / "0.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
        schema = pa.schema([("k", pa.string()), ("n", pa.int64()), ("none", pa.string())])
        of = files(tmp_path, "arrow", schema)
        found = rows(of, cuts=cuts)
        assert [row["n"] for row in found] == list(range(20))
        assert found[1] == {"k": "b", "n": 1, "none": None}
        assert rows(of, "none", cuts=cuts) == [{"none": None}] * 20
        file = list_files(LOCAL, of.paths)[0]
        assert sum(count for _, count in row_places(of, file)) == 20
        assert file_schema(of, file).names == ["n", "s", "k"]

    def test_damaged(self, tmp_path: Path) -> None:
        (tmp_path / "0.arrow").write_bytes(b"ARROW1" + bytes(20))
        with pytest.raises(MuntinError, match=r"0.arrow' cannot be read: "):
            rows(files(tmp_path, "arrow", pa.schema([("n", pa.int64())])))


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_zone_that_python_does_not_know(form: str) -> None:
    with pytest.raises(MuntinError, match=r"timeZone is 'GMT\+8', which Python does not know"):
        format_of(form, None, "GMT+8")


def test_texts_with_and_without_a_zone() -> None:
    texts = pa.array(["2024-07-01 08:00:00", None, "2024-07-01T12:00:00Z", "2024-07-01 14:00:00+02:00"])
    noon = datetime(2024, 7, 1, 12, tzinfo=timezone.utc)
    assert points_in_time(texts, NEW_YORK).to_pylist() == [noon, None, noon, noon]
    assert points_in_time(texts.slice(0, 2), NEW_YORK).to_pylist() == [noon, None]
    assert points_in_time(texts.slice(2), NEW_YORK).to_pylist() == [noon, noon]


def test_files_without_rows_of_their_own(tmp_path: Path) -> None:
    for form, text in (("csv", "\n\n"), ("json", "\n \n")):
        path = tmp_path / f"0.{form}"
        path.write_text(text)
        assert rows(files(path, form, pa.schema([("n", pa.int64())]))) == []
    assert File("a", 1, 0).root == 0
