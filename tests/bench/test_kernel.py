"""The kernel benchmark measures the same work on both sides: their sums agree."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.bench.kernel import AGGREGATES, TARGETS, Case, Data, cases, curves, measured
from muntin.engine.map_stage import PaneStage


def test_every_case_runs_and_its_rate_is_drawn() -> None:
    rates = {case: measured(Data.of(case), 1) for case in cases(1_000)}
    assert len(rates) == len(cases(1_000))
    assert all(ours > 0 and plain > 0 for ours, plain in rates.values())
    assert {case.aggregate for case in rates} == set(AGGREGATES)
    drawn = curves(rates)
    assert list(drawn["run, string"]) == [500, 1_000, 100_000, 1_000_000]
    assert {(target.keys, target.lift) for target in TARGETS} <= {(case.keys, case.lift) for case in rates}


@pytest.mark.parametrize("case", [Case(3_000), Case(3_000, 50, "string", ordered=False), Case(3_000, 10**6, "bigint")])
def test_the_tuples_are_those_that_are_named(case: Case) -> None:
    data = Data.of(case)
    times = np.asarray(data.batch.column("t").cast(pa.int64()))
    table = PaneStage(data.plan).lift(data.batch.select(list(data.plan.types)), times)
    assert table.keys.num_rows == len(set(data.keys.tolist()))
    groups = set(zip(data.keys.tolist(), (times // case.slide).tolist(), strict=True))
    assert len(table.panes) == len(groups)
    assert np.isclose(table.panes.state[1].sum(), data.values.sum())
