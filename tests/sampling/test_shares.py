"""Errors of the most frequent values: they hold as often as they say, on windows of many kinds, for any sample."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from muntin.arrays import Float64Array, Int64Array
from muntin.statistics.shares import (
    least,
    least_in_window,
    list_error,
    mode_error,
    most,
    most_in_window,
    most_of_any,
    tuples_enough,
)

ROUNDS = 1_000
LARGE = 1 << 50
SHARES: dict[str, list[float]] = {
    "one value": [1.0],
    "two values, nearly tied": [0.49, 0.51],
    "three values, nearly tied": [0.32, 0.33, 0.35],
    "one of a hundred": [0.01, 0.99],
    "one value and no other twice": [1e-9] * 4_000 + [0.1],
    "no value twice": [1.0] * 5_000,
    "Zipf": [1 / rank for rank in range(200, 0, -1)],
}
"""The shares of values, ascending: of equal counts the one with the smaller share is reported, the worst choice."""


def occurrences(shares: list[float], size: int) -> Int64Array:
    """How often each value occurs in a window."""
    exact = np.array(shares[-size:]) / sum(shares[-size:]) * size
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: size - int(counts.sum())]] += 1
    return np.sort(counts[counts > 0])


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("size", "sampled"), [(20, 6), (200, 50), (200, 150), (5_000, 50)])
@pytest.mark.parametrize("shares", SHARES)
def test_modes_and_lists_are_within_their_error(shares: str, size: int, sampled: int, confidence: float) -> None:
    """A true coverage of less than the confidence would fall below the bound once in ten thousand runs."""
    in_window = occurrences(SHARES[shares], size)
    rng = np.random.default_rng(len(in_window) + sampled)
    drawn = rng.multivariate_hypergeometric(in_window, sampled, ROUNDS, method="marginals")
    drawn = np.pad(drawn, ((0, 0), (3, 0)))  # a list may have room for more values than there are
    in_window = np.pad(in_window, (3, 0))
    place = np.argsort(-drawn, axis=1, kind="stable")
    ordered, truth = np.take_along_axis(drawn, place, axis=1), in_window[place] / size
    n, sizes = np.full(ROUNDS, sampled), np.full(ROUNDS, size)
    enough = binom.ppf(1e-4, ROUNDS, confidence)
    for allowed in (0.0, 1.0):  # tight bounds, and quick ones
        error = mode_error(ordered[:, 0], ordered[:, 1], n, sizes, confidence, allowed)
        assert (in_window.max() / size - truth[:, 0] <= error + 1e-9).sum() >= enough
        assert np.all(error <= 1)
        count, reported = ordered[:, :3], ordered[:, :3] > 0
        window = np.repeat(np.arange(ROUNDS), reported.sum(axis=1))
        error = list_error(count[reported], window, count[:, 2], ordered[:, 3], n, sizes, confidence, allowed)
        missed = truth[:, 3:].max(axis=1) - truth[:, :3].min(axis=1)
        off = np.where(reported, np.abs(count / sampled - truth[:, :3]), 0.0).max(axis=1)
        assert (np.maximum(missed, off) <= error + 1e-9).sum() >= enough


def test_bounds_hold_for_all_values_of_a_window_at_once() -> None:
    """The chance is counted out: the sum over all values of the chance that the bound of its count is wrong."""
    n, tail = 40, 0.1
    every, sizes, large = np.arange(n + 1), np.full(n + 1, n), np.full(n + 1, LARGE)
    low, high = least(every, sizes, large, tail), most_of_any(every, sizes, large, tail)
    assert np.all(np.diff(low) >= 0)
    assert np.all(np.diff(high) >= 0)
    for values in (1, 2, 5, 10, 20, 100, 10_000):
        chance = binom.pmf(every, n, 1 / values)
        assert values * chance[low > 1 / values].sum() <= tail + 1e-12
        assert values * chance[high < 1 / values].sum() <= tail + 1e-12


def one(number: int) -> Int64Array:
    return np.array([number])


@pytest.mark.parametrize("size", [30, 100, 599, 600, 5_000])
def test_tight_bounds_are_within_the_quick_ones(size: int) -> None:
    """Those for windows of any size differ little from those for large windows, in which both are the same."""
    count = np.arange(31)
    numbers = np.full(31, 30), np.full(31, size), 0.025
    for tight, quick, sign in (
        (least_in_window(count, *numbers), least(count, *numbers), 1),
        (most_in_window(count, *numbers), most(count, *numbers), -1),
        (most_in_window(count, *numbers, of_any=True), most_of_any(count, *numbers), -1),
    ):
        assert np.all(sign * (tight - quick) >= -1 / size)
        assert size < 5_000 or np.all(np.abs(tight - quick) < 0.01)


def test_they_are_of_use() -> None:
    """The inequality of Dvoretzky, Kiefer and Wolfowitz bounds the same errors, by two to five times as much."""

    def of(first: int, second: int) -> float:
        return float(mode_error(one(first), one(second), one(50), one(LARGE), 0.95, 0.0)[0])

    assert 4 * np.sqrt(np.log(2 / 0.05) / (2 * 50)) > 0.76
    assert of(25, 25) < 0.33
    assert of(25, 15) < 0.13
    assert of(2, 2) < 0.14
    assert of(30, 10) == 0.0
    assert tuples_enough(False, 0.1, 0.95) < 500
    assert tuples_enough(True, 0.1, 0.95) < 600


def test_samples_that_say_nothing_and_samples_that_say_all() -> None:
    nothing = mode_error(one(0), one(0), one(0), one(9), 0.95, 0.0)
    assert nothing.tolist() == [np.inf]
    empty: Float64Array = list_error(np.zeros(0, int), np.zeros(0, int), one(0), one(0), one(0), one(9), 0.95, 0.0)
    assert empty.tolist() == [np.inf]
    single = mode_error(one(1), one(0), one(1), one(LARGE), 0.95, 0.0)
    assert 0.9 < single[0] <= 1
    # All but one tuple were drawn, and nine are equal: the tenth cannot change the mode.
    assert mode_error(one(9), one(0), one(9), one(10), 0.95, 0.0).tolist() == [0.0]
