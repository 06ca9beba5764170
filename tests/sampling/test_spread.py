"""Variances and standard deviations from samples: their intervals hold for every distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from muntin.arrays import Float64Array
from muntin.engine.map_stage import PaneStage
from muntin.features.sampling.policy import Approximation
from tests.builders import TYPES, answer_table, make_plan, sliding

LENGTH = 10_000
CONFIDENCE = 0.9
NAMES = ["var_pop", "stddev_samp"]
X = {"t": TYPES["t"], "x": TYPES["x"]}
DATA: dict[str, Callable[[np.random.Generator, int], Float64Array]] = {
    "normal": lambda rng, size: rng.normal(5, 2, size),
    "lognormal": lambda rng, size: rng.lognormal(0, 1, size),
    "heavy": lambda rng, size: rng.lognormal(0, 2, size),
    "zeros": lambda rng, size: np.where(rng.random(size) < 0.99, 0.0, rng.gamma(2, 10, size)),
    "two values": lambda rng, size: rng.choice([-1.0, 1.0], size),
    "far from zero": lambda rng, size: 1e9 + rng.random(size),
}


def answers_of(
    x: Float64Array, windows: int, budget: int | str = 400, error: float = 0.9, names: Sequence[str] = NAMES
) -> list[dict[str, Any]]:
    """The answers of tumbling windows of equally many values each."""
    policy = Approximation.of(budget, error, CONFIDENCE, None, "l1", False, 0)
    plan = make_plan([sliding(LENGTH, LENGTH)], (), list(names), types=X, approximation=policy)
    time = np.arange(len(x)) * LENGTH * windows // len(x)
    batch = pa.record_batch([pa.array(time).cast(X["t"]), pa.array(x)], names=["t", "x"])
    rows = pa.Table.from_batches(list(answer_table(plan, list(PaneStage(plan).run([batch])))), plan.result_schema)
    found: list[dict[str, Any]] = rows.sort_by("window_id").to_pylist()
    return found


def truths(x: Float64Array, windows: int) -> dict[str, Float64Array]:
    by_window = x.reshape(windows, -1)
    return {"var_pop": by_window.var(axis=1), "stddev_samp": by_window.std(axis=1, ddof=1)}


@pytest.mark.parametrize("data", DATA)
def test_intervals_hold(data: str) -> None:
    windows, rng = 300, np.random.default_rng(5)
    x = DATA[data](rng, windows * 1_500)
    # With an allowed error this large, no window is left out because its sample is too small.
    rows, exact = answers_of(x, windows, error=0.999999 if data != "heavy" else 0.9), truths(x, windows)
    for name in NAMES:
        missed, wrong, sampled = 0, 0, 0
        for row, truth in zip(rows, exact[name].tolist(), strict=True):
            quality = row["quality"]
            if quality["mode"] != "approximate":
                assert row[name] == pytest.approx(truth, rel=1e-9)
                continue
            sampled += 1
            missed += not quality["low"][name] <= truth * (1 + 1e-9) <= quality["high"][name] * (1 + 1e-9) + 1e-9
            wrong += abs(row[name] - truth) > quality["error"] * truth * (1 + 1e-9)
        assert sampled == windows or data in ("heavy", "zeros", "lognormal")
        assert max(missed, wrong) <= binom.ppf(1 - 1e-4, max(sampled, 1), 1 - CONFIDENCE)
        if data in ("normal", "two values"):
            estimates = np.array([row[name] for row in rows])
            assert np.mean(estimates / exact[name]) == pytest.approx(1, abs=0.02)  # there is no bias
            assert np.std(estimates / exact[name]) > 0 or data == "two values"


def test_equal_values_have_no_error() -> None:
    for row in answers_of(np.full(4_000, 7.0), windows=2, error=0.01):
        assert (row["var_pop"], row["stddev_samp"], row["quality"]["error"]) == (0.0, 0.0, 0.0)


def test_what_cannot_be_estimated_is_exact() -> None:
    rng = np.random.default_rng(1)
    for values in (np.append(rng.random(2_999), np.inf), np.append(rng.random(2_999), np.nan)):
        (row,) = answers_of(values, windows=1)
        assert row["quality"]["mode"] != "approximate"
    (row,) = answers_of(rng.lognormal(0, 2, 3_000), windows=1, error=0.01)
    assert row["quality"]["mode"] != "approximate"


def test_few_values_are_answered_as_without_samples() -> None:
    rows = answers_of(np.array([3.0, 5.0]), windows=2)
    assert [(row["var_pop"], row["stddev_samp"]) for row in rows] == [(0.0, None), (0.0, None)]


def test_a_budget_is_found() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(0, 1, 200_000)
    rows, exact = answers_of(x, windows=4, budget="auto", error=0.3), truths(x, windows=4)
    for row, truth in zip(rows, exact["var_pop"].tolist(), strict=True):
        assert row["quality"]["mode"] == "approximate"
        assert row["quality"]["error"] <= 0.3
        assert row["quality"]["sampled"] < 25_000
        assert row["var_pop"] == pytest.approx(truth, rel=0.3)


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float32(), pa.decimal128(12, 2)], ids=str)
def test_numbers_of_any_type(kind: pa.DataType) -> None:
    rng, size = np.random.default_rng(8), 5_000
    x = rng.integers(-40, 90, size)
    column = pa.array([None if i % 7 == 0 else value for i, value in enumerate(x.tolist())], pa.int64())
    counted = x[np.arange(size) % 7 > 0]
    policy = Approximation.of(1_500, 0.5, CONFIDENCE, None, "l1", False, 0)
    types = {"t": TYPES["t"], "x": kind}
    plan = make_plan([sliding(LENGTH, LENGTH)], (), ["var_pop"], types=types, approximation=policy)
    time = pa.array(np.arange(size)).cast(types["t"])
    batch = pa.record_batch([time, column.cast(pa.float64()).cast(kind)], names=["t", "x"])
    (row,) = pa.Table.from_batches(list(answer_table(plan, list(PaneStage(plan).run([batch]))))).to_pylist()
    assert row["quality"]["mode"] == "approximate"
    assert row["var_pop"] == pytest.approx(counted.var(), rel=0.1)
    assert row["quality"]["low"]["var_pop"] < counted.var() < row["quality"]["high"]["var_pop"]
