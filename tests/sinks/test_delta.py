"""Real Delta tables, merged by deltalake."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import MuntinError
from muntin.sinks.delta import DeltaTarget
from muntin.sinks.revisions import Revisions
from tests.sinks.batches import ROWS, SENT, STORED, Row, Table, batch, expected, keyed, row, updates


def target(path: Path | str) -> DeltaTarget:
    made = DeltaTarget(str(path), ROWS, STORED)
    made.prepare()
    return made


def stored(path: Path | str) -> Table:
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table()
    return keyed(rows.cast(STORED).to_pylist())


@given(updates(), st.integers(0, 4))
@settings(max_examples=10)
def test_a_table_has_the_latest_revisions_however_often_a_batch_is_written(
    batches: list[list[Row]], repeated: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = target(folder)
        for number, rows in enumerate(batches):
            table.write(batch(rows))
            if number == repeated:
                table.write(batch(rows))
            assert stored(folder) == expected(batches[: number + 1])


def test_a_batch_that_is_written_again_makes_no_version(tmp_path: Path) -> None:
    table = target(tmp_path / "t")
    rows = batch([row(1, "a", 0), row(2, None, 0)])
    table.write(rows)
    before = stored(tmp_path / "t")
    table.write(rows)
    assert stored(tmp_path / "t") == before


def test_results_without_revisions_replace_what_is_there(tmp_path: Path) -> None:
    names = ("window_id", "n")
    schema = pa.schema([SENT.field(name) for name in names])
    table = DeltaTarget(str(tmp_path), Revisions(names, ("window_id",)), schema)
    table.prepare()
    for n in (1, 2):
        table.write(pa.table([[7], [n]], schema))
    assert deltalake.DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == [{"window_id": 7, "n": 2}]


def test_a_table_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    def existing(name: str, schema: pa.Schema) -> Path:
        deltalake.DeltaTable.create(tmp_path / name, deltalake.Schema.from_arrow(schema))
        return tmp_path / name

    narrow = existing("narrow", STORED.remove(STORED.get_field_index("n")))
    with pytest.raises(MuntinError, match="has no column 'n', which the results have"):
        target(narrow)
    other = existing("other", STORED.set(5, pa.field("n", pa.string())))
    with pytest.raises(MuntinError, match="has the column 'n' of type string, and the results of type bigint; cast"):
        target(other)
    strict = existing("strict", STORED.append(pa.field("batch", pa.int64(), nullable=False)))
    with pytest.raises(MuntinError, match="has a column 'batch' that must not be null"):
        target(strict)
    wide = existing("wide", STORED.append(pa.field("note", pa.string())))
    target(wide).write(batch([row(1, "a", 0)]))
    assert len(stored_columns(wide)) == len(STORED) + 1


def stored_columns(path: Path) -> list[str]:
    return list(deltalake.DeltaTable(path).to_pyarrow_table().column_names)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with patch.dict(sys.modules, {"deltalake": None}), pytest.raises(MuntinError, match="pip install 'muntin\\[delta"):
        target(tmp_path)
    void = pa.schema([pa.field("nothing", pa.null())])
    with pytest.raises(MuntinError, match="column 'nothing' is of type void"):
        DeltaTarget(str(tmp_path), Revisions(("nothing",), ()), void).prepare()
