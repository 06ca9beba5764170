"""Rank errors of sample quantiles: against the chance itself, counted out, and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from muntin.statistics.guarantees import rank_error, tuples_needed


def failures(n: int, size: int, probability: float, error: float, rounds: int, seed: int) -> int:
    """How often the quantile of a sample of the numbers 0, 1, 2, … is not within the error of the exact one."""
    rng = np.random.default_rng(seed)
    low, high = (size - 1) * max(probability - error, 0.0), (size - 1) * min(probability + error, 1.0)
    found = 0
    for _ in range(rounds):
        sample = np.sort(rng.choice(size, n, replace=False))
        value = np.quantile(sample, probability)
        found += not low - 1e-9 <= value <= high + 1e-9
    return found


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.95])
@pytest.mark.parametrize(("n", "size"), [(20, 60), (50, 5_000), (101, 150), (150, 47_000)])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_error_holds_as_often_as_it_says(n: int, size: int, probability: float, confidence: float) -> None:
    """2,000 samples. A true chance of failure of 1 - confidence would exceed the bound once in ten thousand runs."""
    error = float(rank_error(np.array([n]), np.array([size]), probability, confidence)[0])
    rounds = 2_000
    allowed = int(binom.ppf(1 - 1e-4, rounds, 1 - confidence))
    assert failures(n, size, probability, error, rounds, seed=n) <= allowed


def test_it_is_not_wider_than_it_must_be() -> None:
    """Half of the error is not enough, by far."""
    error = float(rank_error(np.array([150]), np.array([47_000]), 0.5, 0.95)[0])
    assert error < 0.1
    assert failures(150, 47_000, 0.5, error / 2, 500, seed=3) > 50


def test_a_sample_of_everything_has_no_error_and_one_of_nothing_any() -> None:
    assert rank_error(np.array([7, 0, 0]), np.array([7, 0, 5]), 0.5, 0.95).tolist() == [0.0, 0.0, np.inf]


@pytest.mark.parametrize("probability", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("error", [0.02, 0.1, 0.3])
def test_as_many_tuples_as_are_needed_are_enough(probability: float, error: float) -> None:
    needed = tuples_needed(probability, error, 0.95)
    at = np.arange(needed, needed + 20)
    assert np.all(rank_error(at, np.full(20, 1 << 50), probability, 0.95) <= error + 1e-9)
    if needed > 1:
        # Six tenths of them are too few: the error goes up and down a little as the sample grows.
        few = np.array([max(1, needed * 6 // 10)])
        assert rank_error(few, np.array([1 << 50]), probability, 0.95)[0] > error


def test_the_paper_needs_more() -> None:
    """Hoeffding's inequality asks for ln(2 / (1 - confidence)) / (2 · error²) tuples."""
    assert tuples_needed(0.5, 0.1, 0.95) < 0.6 * np.log(2 / 0.05) / (2 * 0.1**2)


def test_finite_windows_need_no_more_than_infinite_ones() -> None:
    n = np.full(6, 60)
    size = np.array([61, 100, 200, 600, 1_199, 1_200])
    errors = rank_error(n, size, 0.5, 0.95)
    assert np.all(np.diff(errors[:-1]) > 0)
    assert errors[-1] == pytest.approx(errors[-2], rel=0.05)
