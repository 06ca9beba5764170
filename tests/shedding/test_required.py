"""How many tuples an error needs: enough in almost all windows, and no more than there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import MuntinError
from muntin.features.shedding.policy import Shedding
from muntin.statistics.bounded import draws_for_a_mean, draws_for_a_rank, half_width, stratum
from tests.builders import answer, make_plan, row, sliding

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=30)


def policy(error: float, incremental: bool = False, confidence: float = 0.95) -> Shedding:
    return Shedding.of(None, None, "concept", 0, confidence, error, "panes", incremental)


@given(VALUES, st.sampled_from([0.01, 0.1, 0.5]), st.sampled_from([0.2, 0.05]))
def test_so_many_draws_are_within_the_error(values: list[float], error: float, doubt: float) -> None:
    x = np.array(values)
    known = [np.array([float(each)]) for each in (len(x), x.min(), x.max(), x.mean(), ((x - x.mean()) ** 2).sum())]
    size, low, high, mean, squares = known
    (draws,) = draws_for_a_mean(size, low, high, mean, squares, error, doubt)
    assert 1 <= draws <= len(x)
    bounds = stratum(size, np.array([draws]), low, high, mean, squares)
    (half,) = half_width(*bounds, 1 - doubt)
    assert half <= error * abs(x.sum()) * (1 + 1e-9) + 1e-9 or draws == len(x)


def test_more_accuracy_needs_more_draws_of_a_rank() -> None:
    size = np.array([10.0, 1000.0, 1e6])
    draws = [draws_for_a_rank(size, error, 0.05).tolist() for error in (0.1, 0.01)]
    assert draws[0] == [10, 156, 185]
    assert draws[1][0] == 10
    assert draws[1][2] == pytest.approx(18_109, rel=0.01)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("made", ["normal", "lognormal", "rare", "half count"])
def test_windows_are_within_the_error(made: str, confidence: float) -> None:
    """300 windows of two panes and two groups."""
    random = np.random.default_rng(5)
    shape = (300, 2, 400)
    x = random.normal(10, 3, shape).clip(0)
    if made == "lognormal":
        x = random.lognormal(0, 1, shape)
    elif made == "rare":
        x = np.where(random.random(shape) < 0.9, 0.0, 5.0)
    counts = random.random(x.shape) < 0.5 if made == "half count" else np.ones(x.shape, dtype=bool)
    rows = [
        row(10 * window + at % 10, "ab"[group], x=float(x[window, group, at]) if counts[window, group, at] else None)
        for window, group, at in np.ndindex(*x.shape)
    ]
    plan = make_plan([sliding(10, 10)], ("k",), ["mean_x", "sum_x"], shedding=policy(0.2, confidence=confidence))
    (found,) = answer(plan, [rows])
    total = (x * counts).sum(2)
    errors, kept = [], []
    for place, values in found:
        window, group = place[1] // 10, "ab".index(place[4][0])
        errors.append(abs(values["sum_x"] / total[window, group] - 1))
        assert values["mean_x"] == pytest.approx(values["sum_x"] / counts[window, group].sum())
        kept.append(values["quality"]["sampled"] / values["quality"]["size"])
    assert len(errors) == 600
    assert np.mean(np.array(errors) <= 0.2) >= confidence - 3 * np.sqrt(confidence * (1 - confidence) / 600)
    if made == "normal":
        assert np.mean(kept) < 0.9, "something is shed"


@pytest.mark.parametrize("incremental", [False, True])
def test_quantiles_are_within_the_error_of_their_rank(incremental: bool) -> None:
    random = np.random.default_rng(6)
    x = random.lognormal(0, 2, (200, 2000))
    rows = [row(10 * window + at // 1000, x=float(x[window, at])) for window, at in np.ndindex(*x.shape)]
    plan = make_plan([sliding(10, 10)], (), ["median_x", "mean_x"], shedding=policy(0.1, incremental))
    if not incremental:
        plan = make_plan([sliding(10, 10)], (), ["median_x"], shedding=policy(0.1, incremental))
    (found,) = answer(plan, [rows])
    off = []
    for place, values in found:
        of_window = x[place[1] // 10]
        off.append(abs((of_window <= values["median_x"]).mean() - 0.5))
        assert values["quality"]["sampled"] < 600
        if incremental:
            assert values["mean_x"] == pytest.approx(of_window.mean())
    assert np.mean(np.array(off) <= 0.1) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)


def test_values_of_both_signs_are_all_kept() -> None:
    rows = [row(0, x=float(i % 5 - 2), n=1) for i in range(500)]
    (found,) = answer(make_plan([sliding(10, 10)], ("k",), ["sum_x"], shedding=policy(0.1)), [rows])
    assert found[0][1]["quality"]["sampled"] == 500
    (found,) = answer(make_plan([sliding(10, 10)], ("k",), ["sum_n"], shedding=policy(0.1)), [rows])
    assert found[0][1]["quality"]["sampled"] == 2, "they are all alike"
    assert found[0][1]["sum_n"] == 500


def test_infinite_values_are_all_kept() -> None:
    rows = [row(0, x=float("inf") if i == 3 else 1.0) for i in range(100)]
    (found,) = answer(make_plan([sliding(10, 10)], ("k",), ["sum_x"], shedding=policy(0.1)), [rows])
    assert found[0][1]["quality"]["sampled"] == 100
    assert found[0][1]["sum_x"] == float("inf")


@pytest.mark.parametrize("name", ["mode_w", "top_w", "var_pop", "min_x", "spread"])
def test_what_has_no_rule_is_refused(name: str) -> None:
    with pytest.raises(MuntinError, match=f"cannot tell how many rows {name} needs"):
        make_plan([sliding(10, 10)], names=[name], shedding=policy(0.1))
