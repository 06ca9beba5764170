"""What `error=` limits: errors of groups, combined by norms or by the user's function, and the user's own metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import MuntinError
from muntin.arrays import Float64Array, Int64Array
from muntin.engine.plan import Plan
from muntin.features.sampling.combined import Combination, checked, combined
from muntin.features.sampling.error_metric import MetricInput, measured
from muntin.features.sampling.estimated import Estimate
from muntin.features.sampling.explained import explained
from muntin.features.sampling.policy import Approximation
from tests.builders import answer, make_plan, row, sliding

ERRORS = st.floats(0, 1) | st.just(np.inf) | st.just(np.nan)
GROUPS = st.lists(st.tuples(st.integers(0, 3), ERRORS, st.integers(1, 99)), min_size=1, max_size=20)


def weighted(errors: Float64Array, sizes: Int64Array) -> float:
    return float(np.average(errors, weights=sizes))


NAIVE: dict[str, tuple[Combination, Callable[..., float]]] = {
    "l1": ("l1", lambda errors, sizes: float(np.mean(errors))),
    "l2": ("l2", lambda errors, sizes: float(np.linalg.norm(errors)) / len(errors) ** 0.5),
    "max": ("max", lambda errors, sizes: max(errors)),
    "function": (weighted, weighted),
}


@pytest.mark.parametrize("combine", NAIVE)
@given(GROUPS)
def test_errors_of_groups_are_combined_and_an_unknown_one_is_never_small(
    combine: str, groups: list[tuple[int, float, int]]
) -> None:
    _, window = np.unique([each[0] for each in groups], return_inverse=True)
    error, size = np.array([each[1] for each in groups]), np.array([each[2] for each in groups])
    how, naive = NAIVE[combine]
    found = combined(error, window, size, how)
    assert len(found) == window.max() + 1
    for number, each in enumerate(found):
        errors = error[window == number]
        if np.isfinite(errors).all():
            assert each == pytest.approx(naive(errors, size[window == number]), abs=1e-12)
        else:
            assert each == np.inf


@pytest.mark.parametrize("unknown", [np.nan, -0.5])
def test_a_combination_that_is_unknown_is_infinite(unknown: float) -> None:
    one = np.array([0])
    assert combined(np.array([0.1]), one, np.array([9]), lambda errors, sizes: unknown) == [np.inf]
    # A function that would forget an unknown error is not asked.
    both = np.array([0, 0])
    assert combined(np.array([0.1, np.inf]), both, np.array([9, 9]), lambda errors, sizes: errors.min()) == [np.inf]


@pytest.mark.parametrize(
    ("combine", "said"),
    [
        ("min", "combine is 'min'"),
        (lambda errors: 0.1, "errors of a window's groups and their numbers of rows"),
        (lambda errors, sizes: errors, "combine must return one number"),
        (lambda errors, sizes: True, "combine must return one number"),
        (lambda errors, sizes: "small", "combine must return one number"),
    ],
)
def test_combinations_are_checked_beforehand(combine: Any, said: str) -> None:
    with pytest.raises(MuntinError, match=said):
        checked(combine)


def policy(error: float, metric: Any = None, combine: Any = "l1", **others: Any) -> Approximation:
    given = {"budget": 40, "confidence": 0.9, "groups": None, "incremental": False, "seed": 0} | others
    return Approximation.of(error=error, combine=combine, metric=metric, **given)


def answers(names: Sequence[str], approximation: Approximation, keys: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Ten windows of 200 tuples, of two groups with 150 and 50."""
    plan = make_plan([sliding(200, 200)], keys, names, approximation=approximation)
    rows = [row(t, k="ab"[t % 4 == 0], x=float(t * 7919 % 100), n=t * 31 % 50) for t in range(2000)]
    return [values for shard in answer(plan, [rows]) for _, values in shard]


def half_width(given: MetricInput) -> Float64Array:
    return np.asarray((given.high - given.low) / 2)


def test_a_metric_decides_in_units_of_its_own() -> None:
    """Half the width of the interval of a mean of numbers below 100: less than 15, and more than 5."""
    for limit, mode in ((15.0, "approximate"), (5.0, "exact")):
        found = answers(["mean_x"], policy(limit, half_width))
        assert {values["quality"]["mode"] for values in found} == {mode}
        for values in found:
            low, high = (values["quality"][side]["mean_x"] for side in ("low", "high"))
            assert values["quality"]["error"] == pytest.approx((high - low) / 2)


def test_metrics_by_aggregate_leave_the_others_their_own_error() -> None:
    found = answers(["mean_x", "median_x"], policy(0.5, {"mean_x": lambda given: given.sampled / given.size}))
    assert {values["quality"]["mode"] for values in found} == {"approximate"}
    assert all(values["quality"]["error"] == pytest.approx(40 / 200, abs=1e-9) for values in found)


def test_a_metric_gets_what_is_known_of_every_group() -> None:
    seen: list[MetricInput] = []

    def metric(given: MetricInput) -> Float64Array:
        seen.append(given)
        return given.error * 0

    found = answers(["median_x", "mode_w"], policy(0.9, metric), keys=("k",))
    (median,) = (each for each in seen if each.name == "median_x" and len(each.value) > 2)
    assert sorted(set(median.size.tolist())) == [50, 150]
    assert median.confidence == 0.9
    assert np.all((median.low <= median.value) & (median.value <= median.high))
    (mode,) = (each for each in seen if each.name == "mode_w" and len(each.value) > 2)
    assert mode.value.dtype == object
    assert {values["quality"]["mode"] for values in found} == {"approximate"}


@pytest.mark.parametrize("unknown", [np.nan, -1.0, np.inf])
def test_an_error_that_a_metric_does_not_know_is_answered_exactly(unknown: float) -> None:
    for combine in ("l1", lambda errors, sizes: float(errors.min())):
        one_unknown = policy(0.9, lambda given: np.where(given.size == 50, unknown, 0.0), combine)
        found = answers(["mean_x"], one_unknown, keys=("k",))
        assert {values["quality"]["mode"] for values in found} == {"exact"}


def test_complete_samples_have_no_error_and_no_estimate_has_an_unknown_one() -> None:
    estimate = Estimate(pa.array([1.0, None, None, 4.0]), np.array([0.1, 0.0, np.inf, 0.2]))
    sampled, size = np.array([3, 3, 0, 9]), np.array([9, 9, 9, 9])
    found = measured(lambda given: np.full(4, 0.3), "x", estimate, sampled, size, sampled == size, 0.9)
    assert found.tolist() == [0.3, 0.0, np.inf, 0.0]
    # There is no interval, so a metric that needs one knows nothing.
    found = measured(half_width, "x", estimate, sampled, size, sampled == size, 0.9)
    assert found.tolist() == [np.inf, 0.0, np.inf, 0.0]


def median_plan(**given: Any) -> Plan:
    return make_plan([sliding(200, 200)], names=["median_x", "count"], approximation=policy(**given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"error": 0.1, "metric": 3}, "metric must be a function"),
        ({"error": 0.1, "metric": {}}, "metric must be a function"),
        ({"error": 0.1, "metric": {"median_x": 3}}, "metric must be a function"),
        ({"error": -1, "metric": half_width}, "error must be a positive number"),
        ({"error": np.inf, "metric": half_width}, "error must be a positive number"),
        ({"error": 0.1, "metric": lambda: 3}, "metric raised TypeError for two estimates of 'median_x'"),
        ({"error": 0.1, "metric": lambda given: "small"}, "metric must return an array"),
        ({"error": 0.1, "metric": lambda given: [0.1, 0.2, 0.3]}, "metric must return an array"),
        ({"error": 0.1, "metric": half_width, "budget": "auto"}, "cannot be found for your own error metric"),
    ],
)
def test_metrics_are_checked_beforehand(given: dict[str, Any], said: str) -> None:
    with pytest.raises(MuntinError, match=said):
        median_plan(**given)


def test_metrics_are_explained() -> None:
    def width(given: MetricInput) -> Float64Array:
        return half_width(given)

    approximation = policy(0.1, width, weighted)
    plan = make_plan([sliding(200, 200)], ("k",), ["median_x"], approximation=approximation)
    said = "\n".join(explained(approximation, plan))
    assert "the error is that of your metric width" in said
    assert "The error of a window is that of its groups: your function weighted." in said
    assert "metric=width" in approximation.written
