"""What the files of a checkpoint say of batches, and which arguments the command refuses; no Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from muntin.cli import main
from muntin.spark.checkpoint_files import BatchFiles, StoredBatch, last_batch


def write(folder: Path, number: int, watermark: int = 0, committed: float | None = None, text: str = "") -> None:
    """The files of a batch as Spark writes them: begun at 100 · number, with offsets half a second later."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True)
    said = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": 100_000 * number, "conf": {}})
    offsets = folder / "offsets" / str(number)
    offsets.write_text(text or f'v1\n{said}\n{{"logOffset":{number}}}', encoding="utf-8")
    os.utime(offsets, (100 * number + 0.5, 100 * number + 0.5))
    if committed is not None:
        commit = folder / "commits" / str(number)
        commit.write_text('v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")
        os.utime(commit, (committed, committed))


def test_batches_are_read_from_their_files(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path)
    assert files.last(9) == []
    assert last_batch(tmp_path) is None
    for number in range(9, 13):
        write(tmp_path, number, watermark=number * 1000 - 9000, committed=None if number == 12 else 100 * number + 2)
    (tmp_path / "offsets" / ".12.crc").write_text("")
    assert files.last(9) == [
        StoredBatch(9, 900.0, None, 900.5, 902.0),
        StoredBatch(10, 1000.0, 1.0, 1000.5, 1002.0),
        StoredBatch(11, 1100.0, 2.0, 1100.5, 1102.0),
        StoredBatch(12, 1200.0, 3.0, 1200.5, None),
    ]
    assert [batch.number for batch in files.last(2)] == [11, 12]
    assert last_batch(tmp_path) == 11

    write(tmp_path, 12, watermark=3000, committed=1203)
    (tmp_path / "offsets" / "9").unlink()
    found = files.last(9)
    assert [(batch.number, batch.committed) for batch in found] == [(10, 1002), (11, 1102), (12, 1203)]


@pytest.mark.parametrize("text", ["v1", "v1\n{", "v1\n[1]", 'v1\n{"batchTimestampMs": 3}', "\x00"])
def test_a_file_that_says_nothing_is_left_out(tmp_path: Path, text: str) -> None:
    write(tmp_path, 1, committed=101)
    write(tmp_path, 2, committed=201, text=text)
    assert [batch.number for batch in BatchFiles(tmp_path).last(9)] == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--checkpoint", "nowhere"], "checkpoint 'nowhere' is no folder; give the checkpointLocation of a stream."),
        (["--checkpoint", "s3://bucket/fares"], "is not on this machine"),
        (["--value", "n"], "value='n' is the name of a column of results; give it with --results."),
        (["--operator", "-1"], "operator must be a whole number from 0, got -1."),
        (["--port", "70000"], "port must be a number from 0 (any) to 65535, got 70000."),
    ],
)
def test_the_command_refuses_other_arguments(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, 0)
    (tmp_path / "metadata").write_text('{"id": "1"}')
    (tmp_path / "state").mkdir()
    given = [] if "--checkpoint" in arguments else ["--checkpoint", str(tmp_path)]
    assert main(["dashboard", *given, *arguments]) == 1
    assert message in capsys.readouterr().err
