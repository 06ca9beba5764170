"""Intervals of estimates: over thousands of samples with fixed seeds, they hold as often as they say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from muntin.arrays import Float64Array
from muntin.statistics import estimators
from muntin.statistics.estimators import Interval

Draw = Callable[[np.random.Generator, int], Float64Array]
DATA: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(10, 3, n),
    "lognormal": lambda rng, n: rng.lognormal(0, 0.8, n),
    "pareto": lambda rng, n: rng.pareto(3.5, n) + 1,
    "bimodal": lambda rng, n: np.where(rng.random(n) < 0.3, rng.normal(5, 1, n), rng.normal(50, 2, n)),
    "constant": lambda rng, n: np.full(n, 4.0),
}
SIZE, ROUNDS, CONFIDENCE = 2_000, 2_000, 0.95


def covered(intervals: Interval, truth: Float64Array | float) -> int:
    slack = 1e-9 * np.abs(truth)
    return int(np.sum((intervals.low - slack <= truth) & (truth <= intervals.high + slack)))


def least(coverage: float = CONFIDENCE) -> int:
    """A true coverage as low as this would fall below the bound once in ten thousand runs."""
    return int(binom.ppf(1e-4, ROUNDS, coverage))


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("n", [40, 400])
def test_means_with_the_variance_of_the_window(data: str, n: int) -> None:
    """The window's variance is known from its panes. Skewed data of 40 tuples cover up to one per cent less."""
    rng = np.random.default_rng(n)
    window = DATA[data](rng, SIZE)
    drawn = np.array([rng.choice(window, n, replace=False).mean() for _ in range(ROUNDS)])
    every = np.full(ROUNDS, n)
    size = np.full(ROUNDS, SIZE)
    found = estimators.mean(drawn, np.full(ROUNDS, window.var(ddof=1)), every, size, CONFIDENCE)
    assert covered(found, window.mean()) >= least(CONFIDENCE - (0.01 if n == 40 else 0.0))
    sums = estimators.total(drawn, np.full(ROUNDS, window.var(ddof=1)), every, size, CONFIDENCE)
    assert covered(sums, window.sum()) >= least(CONFIDENCE - (0.01 if n == 40 else 0.0))


@pytest.mark.parametrize("data", ["normal", "bimodal", "constant"])
def test_small_samples_of_which_the_variance_is_not_known_get_students_t(data: str) -> None:
    rng = np.random.default_rng(5)
    window = DATA[data](rng, SIZE)
    drawn = np.array([rng.choice(window, 12, replace=False) for _ in range(ROUNDS)])
    every, size = np.full(ROUNDS, 12), np.full(ROUNDS, SIZE)
    found = estimators.mean(drawn.mean(axis=1), drawn.var(axis=1, ddof=1), every, size, CONFIDENCE)
    # Two humps and twelve tuples: three per cent less.
    assert covered(found, window.mean()) >= least(CONFIDENCE - (0.03 if data == "bimodal" else 0.0))
    narrower = 1.96 / estimators.deviate(np.array([12]), CONFIDENCE)[0]
    assert narrower < 0.9


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.97, 1.0])
def test_counts(share: float) -> None:
    rng = np.random.default_rng(9)
    window = np.arange(SIZE) < share * SIZE
    matching = np.array([int(rng.choice(window, 80, replace=False).sum()) for _ in range(ROUNDS)])
    found = estimators.count(matching, np.full(ROUNDS, 80), np.full(ROUNDS, SIZE), CONFIDENCE)
    assert covered(found, float(window.sum())) >= least()


@pytest.mark.parametrize("data", ["normal", "bimodal", "constant"])
def test_variances_and_standard_deviations(data: str) -> None:
    rng = np.random.default_rng(11)
    window = DATA[data](rng, SIZE)
    drawn = np.array([rng.choice(window, 200, replace=False) for _ in range(ROUNDS)])
    centred = drawn - drawn.mean(axis=1, keepdims=True)
    variance, fourth = drawn.var(axis=1, ddof=1), (centred**4).mean(axis=1)
    every, size = np.full(ROUNDS, 200), np.full(ROUNDS, SIZE)
    # Both are as skewed as squares are: one and a half per cent less.
    found = estimators.variance(variance, fourth, every, size, CONFIDENCE)
    assert covered(found, window.var(ddof=1)) >= least(CONFIDENCE - 0.015)
    roots = estimators.standard_deviation(variance, fourth, every, size, CONFIDENCE)
    assert covered(roots, window.std(ddof=1)) >= least(CONFIDENCE - 0.015)


def test_ratios() -> None:
    rng = np.random.default_rng(13)
    under = rng.lognormal(0, 0.5, SIZE)
    over = under * rng.normal(2, 0.4, SIZE)
    held = 0
    for _ in range(ROUNDS):
        chosen = rng.choice(SIZE, 100, replace=False)
        found = estimators.ratio(over[chosen], under[chosen], SIZE, CONFIDENCE)
        held += covered(found, over.sum() / under.sum())
    assert held >= least(CONFIDENCE - 0.01)


@pytest.mark.parametrize("truth", [300, 20_000])
def test_distinct_values(truth: int) -> None:
    rng = np.random.default_rng(17)
    kept = np.full(ROUNDS, 128)
    last = np.array([np.partition(rng.random(truth), 127)[127] for _ in range(ROUNDS)])
    found = estimators.distinct(last, kept, CONFIDENCE)
    assert covered(found, float(truth)) >= least()
    # Unbiased: the mean of the estimates is within four standard errors.
    assert abs(found.value.mean() / truth - 1) < 4 / np.sqrt(126 * ROUNDS)


def test_a_sample_of_everything_has_no_error() -> None:
    n = np.array([5])
    for found in (
        estimators.mean(np.array([2.0]), np.array([1.0]), n, n, CONFIDENCE),
        estimators.total(np.array([2.0]), np.array([1.0]), n, n, CONFIDENCE),
        estimators.count(np.array([2]), n, n, CONFIDENCE),
        estimators.variance(np.array([2.0]), np.array([9.0]), n, n, CONFIDENCE),
        estimators.ratio(np.arange(1.0, 6.0), np.ones(5), 5, CONFIDENCE),
    ):
        assert found.low == found.value == found.high
        assert found.relative_error == [0.0]


def test_what_cannot_be_told_has_an_infinite_error() -> None:
    none, one, size = np.array([0]), np.array([1]), np.array([9])
    assert estimators.mean(np.array([np.nan]), np.array([1.0]), none, size, CONFIDENCE).relative_error == [np.inf]
    assert estimators.mean(np.array([3.0]), np.array([1.0]), one, size, CONFIDENCE).relative_error == [np.inf]
    assert estimators.mean(np.array([0.0]), np.array([1.0]), np.array([5]), size, CONFIDENCE).relative_error == [np.inf]
    # Of constant data even a single tuple says all.
    constant = estimators.mean(np.array([3.0]), np.array([0.0]), np.array([2]), size, CONFIDENCE)
    assert constant.relative_error == [0.0]
