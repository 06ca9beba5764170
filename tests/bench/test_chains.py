"""The chains benchmark: its verdict is that of the figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.bench.chains import QUICK, batches, draw, record
from muntin.bench.steady import Measured


@pytest.mark.parametrize(("seconds", "meets"), [(1.5, True), (1.7, False)])
def test_the_chain_is_held_against_its_first_query(tmp_path: Path, seconds: float, meets: bool) -> None:
    names = {"the first alone": 1.0, "the chain": seconds}
    found = record(QUICK.load, names)
    assert found.meets is meets
    assert found.ratio == seconds
    draw(names, tmp_path / "chains.png")
    assert (tmp_path / "chains.png").stat().st_size > 1000


def test_batches_without_rows_do_not_count() -> None:
    reports = [{"numInputRows": rows, "durationMs": {"triggerExecution": 500 + rows}} for rows in (1000, 1500, 0)]
    assert batches(Measured((1000,), (1.5,), None, reports=tuple(reports))) == [1.5, 2.0]  # type: ignore[arg-type]
