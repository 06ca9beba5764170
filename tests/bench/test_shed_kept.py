"""The benchmark of kept rows: a larger floor keeps more of rare groups, and errs less."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muntin.bench.data_sets import BEGIN, SECOND, TIME, DataSet
from muntin.bench.shed_core import AT
from muntin.bench.shed_kept import LEAST, kept_of, records_of
from muntin.bench.shed_kept_plot import draw


def test_a_larger_floor_keeps_more_and_errs_less(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    columns = {
        "time": pa.array(np.sort(rng.integers(BEGIN, BEGIN + 300 * SECOND, 6_000))).cast(TIME),
        "value": pa.array(rng.gamma(20.0, 1.0, 6_000)),
        "key": pa.array(rng.integers(0, 300, 6_000)),
    }
    data = DataSet("small", pa.table(columns), 60 * SECOND, 60 * SECOND, made=True)
    curves = kept_of(data, seeds=1, rates=(0.5, AT))
    uniform, *floors = (of_method[AT] for of_method in curves.values())
    assert uniform.kept == pytest.approx(1 - AT, rel=0.1)
    kept, errors = [shed.kept for shed in floors], [shed.error for shed in floors]
    assert kept == sorted(kept)
    # Four rows of a group in a window, so the floor alone keeps these many of them.
    assert kept == pytest.approx([least / 4 for least in LEAST], rel=0.35)
    assert errors == sorted(errors, reverse=True)
    assert uniform.error > errors[0]
    records = records_of(data.title, curves)
    assert [record.ratio for record in records] == pytest.approx([shed.kept / (1 - AT) for shed in (uniform, *floors)])
    draw({data.title: curves}, tmp_path / "kept.png")
    assert (tmp_path / "kept.png").stat().st_size > 10_000
