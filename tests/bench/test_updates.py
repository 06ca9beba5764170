"""The updates benchmark: its batches change what they say, and its verdicts are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from muntin.bench.steady import EPOCH, Measured
from muntin.bench.updates import PER_SECOND, QUICK, SECOND, SIZE, Case, records, tables
from muntin.bench.updates_plot import draw


def measured(rows: int, seconds: float) -> Measured:
    return Measured((rows,) * 3, (seconds,) * 3, None)  # type: ignore[arg-type]


def test_batches_change_the_windows_of_some_keys() -> None:
    case = Case(keys=50, changed=3, seconds=2)
    first, *batches = tables(case, range(-SIZE, 0), batches=2)
    assert len(first) == case.keys * SIZE
    opened = set(zip(first["key"].to_pylist(), seconds_of(first), strict=True))
    assert opened == {(key, second) for key in range(case.keys) for second in range(-SIZE, 0)}
    for number, batch in enumerate(batches):
        assert len(batch) == case.changed * PER_SECOND * case.seconds
        assert set(batch["key"].to_pylist()) == {0, 1, 2}
        assert set(seconds_of(batch)) == {2 * number, 2 * number + 1}
    assert case.windows == 3 * (SIZE + 1)


def seconds_of(table: object) -> list[int]:
    times = np.asarray(table["ts"].cast("int64"))  # type: ignore[index]
    return ((times - EPOCH) // SECOND).tolist()  # type: ignore[no-any-return]


def test_the_verdicts_are_those_of_the_figures(tmp_path: Path) -> None:
    ours = {case: measured(1000, 0.5 * case.windows**0.1) for case, _ in QUICK.cases}
    sparks = {case: measured(1000, 6.0 * case.windows**0.1) for _, case in QUICK.cases}
    found = {record.name: record for record in records(QUICK, ours, sparks)}
    assert [record.meets for record in found.values()] == [None, None, True, None, None, True, True]
    assert all("in" in record.note for record in found.values())
    slow = dict(ours)
    slow[Case(1000, 1)] = measured(1000, 2.0)
    *_, growth = records(QUICK, slow, sparks)
    assert growth.meets is False
    draw({"Muntin, 5 keys": {60: 0.5, 600: 0.7}, "Spark, 5 keys": {60: 0.5, 600: 7.0}}, tmp_path / "updates.png")
    assert (tmp_path / "updates.png").stat().st_size > 1000
