"""Intervals of variances, and errors of the most frequent values, of windows of which tuples were shed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from muntin.arrays import Float64Array, State
from muntin.features.shedding.policy import Method, Shedding
from muntin.features.shedding.weighed import WeighedSquares
from muntin.holistic.contents import WindowContents
from muntin.holistic.frequent import most_frequent
from muntin.panes.tuples import WEIGHT, Tuples
from muntin.statistics.frequencies import missed_in_kept
from tests.builders import answer, make_plan, row, sliding
from tests.shedding.test_weighed import Stratum, drawn, interval, strata

WINDOWS, SIZE = 2000, 1000
SQUARES = WeighedSquares("counts", "x")
MADE: dict[str, Callable[[np.random.Generator], Float64Array]] = {
    "normal": lambda random: random.normal(50, 10, (WINDOWS, SIZE)),
    "bimodal": lambda random: random.normal(10, 1, (WINDOWS, SIZE)) + 50 * random.integers(0, 2, (WINDOWS, SIZE)),
    "lognormal": lambda random: random.lognormal(0, 0.5, (WINDOWS, SIZE)),
    "drifting": lambda random: random.normal(0, 1, (WINDOWS, SIZE)) + np.linspace(0, 10, SIZE),
}


def merged(states: list[State]) -> State:
    state = states[0]
    for each in states[1:]:
        state = SQUARES.combine(state, each)
    return state


def window_states(method: str, x: Float64Array, panes: int, share: int) -> State:
    """Windows of some panes, of each of which so many are kept."""
    lifted = drawn(method, x.ravel(), len(x) * panes, share, seed=6)
    columns = [each.reshape(len(x), panes) for each in lifted]
    return merged([tuple(each[:, pane] for each in columns) for pane in range(panes)])


@given(strata())
def test_the_variance_of_squares_adds_up_over_strata(parts: list[Stratum]) -> None:
    """As if distances had been measured from the common mean from the start, whatever the order of merging."""
    found = merged([part.lifted(SQUARES) for part in parts])
    same = merged([part.lifted(SQUARES) for part in parts[::-1]])
    count, mean = float(found[0][0]), float(found[1][0])
    if not count:
        return
    factors = [part.received * (part.received / len(part.x) - 1) for part in parts]
    away = [part.counts * (part.x - mean) for part in parts]
    squares = [part.counts * (part.x - mean) ** 2 for part in parts]
    each = list(zip(factors, parts, away, squares, strict=True))
    expected = (
        sum(f * np.cov(s, p.counts)[0, 1] for f, p, _, s in each),
        sum(f * np.cov(s, d)[0, 1] for f, _, d, s in each),
        sum(f * s.var(ddof=1) for f, _, _, s in each),
        sum(p.counts.sum() * (p.received / len(p.x)) ** 2 for p in parts),
    )
    scale = max(1.0, *(float(np.abs(d).max()) for d in away)) ** 4 * max(1.0, *factors)
    for ours, backwards, theirs in zip(found[8:], same[8:], expected, strict=True):
        assert float(ours[0]) == pytest.approx(theirs, rel=1e-6, abs=1e-7 * scale)
        assert float(backwards[0]) == pytest.approx(theirs, rel=1e-6, abs=1e-7 * scale)


@pytest.mark.parametrize("method", ["concept", "uniform"])
@pytest.mark.parametrize(("panes", "share"), [(1, 60), (20, 4), (100, 2)])
@pytest.mark.parametrize("made", MADE)
def test_intervals_of_variances_cover(made: str, panes: int, share: int, method: str) -> None:
    """2,000 windows of 1,000 tuples, of which 60 to 200 are kept: the truth is in at least 95 % of the intervals, less
    2 points, four times the deviation of that share. Skewed values get 3 points: their kurtosis is hard to tell.
    """
    x = MADE[made](np.random.default_rng(5))
    state, is_uniform = window_states(method, x, panes, share), method == "uniform"
    size = np.full(WINDOWS, float(SIZE))
    value, low, high = interval("variance", state, size, is_uniform)
    truth = x.var(axis=1)
    told = np.isfinite(low)
    assert told.mean() > 0.99
    assert ((low <= truth) & (truth <= high))[told].mean() >= 0.95 - (0.03 if made == "lognormal" else 0.02)
    assert np.mean(value / truth) == pytest.approx(1, abs=0.02)
    deviation, least, most = interval("deviation", state, size, is_uniform)
    assert np.allclose([deviation, least, most], np.sqrt([value, low, high]), equal_nan=True)


def test_heavy_tails_cost_a_few_points_and_no_more() -> None:
    """Lognormal with a deviation of 1 and a kurtosis of 114: about nine of ten."""
    x = np.random.default_rng(5).lognormal(0, 1, (WINDOWS, SIZE))
    _, low, high = interval("variance", window_states("concept", x, 20, 4), np.full(WINDOWS, float(SIZE)), False)
    truth = x.var(axis=1)
    assert ((low <= truth) & (truth <= high)).mean() > 0.88


def test_of_few_tuples_nothing_is_told_and_neither_if_few_stand_for_most() -> None:
    random = np.random.default_rng(1)
    few = Stratum(random.normal(0, 1, 12), np.ones(12), 1000)
    whole = Stratum(random.normal(0, 1, 500), np.ones(500), 500)
    for state in (few.lifted(SQUARES), merged([few.lifted(SQUARES), whole.lifted(SQUARES)])):
        value, low, high = interval("variance", state, np.array([1500.0]), False)
        assert value[0] > 0
        assert np.isnan(low[0])
        assert np.isnan(high[0])


@pytest.mark.parametrize("method", ["concept", "uniform"])
def test_quality_has_intervals_of_variances(method: Method) -> None:
    random = np.random.default_rng(2)
    x = random.normal(5, 2, 8000)
    rows = [row(i % 80, "ab"[i % 2], x=float(each)) for i, each in enumerate(x)]
    names = ["count", "var_pop", "stddev_samp"]
    plan = make_plan([sliding(80, 80)], ("k",), names, shedding=Shedding(0.9, None, method))
    (found,) = answer(plan, [rows])
    for start, (_, values) in enumerate(sorted(found, key=lambda each: str(each[0]))):
        quality, own = values["quality"], x[start::2]
        assert quality["low"]["var_pop"] < own.var() < quality["high"]["var_pop"]
        assert quality["low"]["stddev_samp"] < values["stddev_samp"] < quality["high"]["stddev_samp"]
        assert quality["low"]["stddev_samp"] == pytest.approx(quality["low"]["var_pop"] ** 0.5, rel=0.01)
        assert 0 < quality["error"] < 1


# The most frequent values


def zipf_windows(random: np.random.Generator) -> tuple[Float64Array, Float64Array]:
    """Windows of few values, the first two of which are about as frequent."""
    shares = np.array([0.3, 0.28, 0.2, 0.12, 0.1])
    x = random.choice(5, (400, SIZE), p=shares).astype(np.float64)
    return x, np.stack([(x == value).mean(axis=1) for value in range(5)], axis=1)


def held(x: Float64Array, kept: int) -> WindowContents:
    """The first tuples of every window, each for as many others."""
    columns = pa.record_batch(
        [pa.array(x[:, :kept].ravel()), pa.array(np.full(x[:, :kept].size, x.shape[1] / kept))], names=["x", WEIGHT]
    )
    key = np.repeat(np.arange(len(x)), kept)
    return WindowContents(
        Tuples(key, np.arange(len(key)), columns), np.arange(len(x)) * kept, np.arange(1, len(x) + 1) * kept
    )


@pytest.mark.parametrize("kept", [50, 400])
def test_a_more_frequent_value_is_missed_by_no_more_than_the_error(kept: int) -> None:
    """At least 95 % of 400 windows, less four deviations (4.4 points); the bound is a wide one and holds for all."""
    x, share = zipf_windows(np.random.default_rng(3))
    chosen = held(x, kept).selected("x", None)
    error = missed_in_kept(chosen, 1, False, 0.95)
    told = np.asarray(chosen.column)[most_frequent(chosen, 1).tuple].astype(int)
    missed = share.max(axis=1) - share[np.arange(len(x)), told]
    assert (missed <= error).mean() >= 0.95 - 0.044
    assert np.all(np.isfinite(error))


def test_a_mode_far_ahead_is_certain_and_a_list_of_counts_never_is() -> None:
    x = np.where(np.random.default_rng(3).random((5, SIZE)) < 0.9, 1.0, 2.0)
    chosen = held(x, 200).selected("x", None)
    assert missed_in_kept(chosen, 1, False, 0.95).tolist() == [0.0] * 5
    assert np.all(missed_in_kept(chosen, 1, True, 0.95) > 0)
    whole = held(x, SIZE).selected("x", None)
    assert missed_in_kept(whole, 1, True, 0.95).tolist() == [0.0] * 5


def test_quality_tells_the_error_of_modes_and_no_interval() -> None:
    rows = [row(i % 80, "a", x=float(i % 7), w=f"w{i % 7}") for i in range(4000)]
    names = ["count", "mode_w", "mode_x", "top_w"]
    plan = make_plan([sliding(80, 80)], ("k",), names, shedding=Shedding(0.9, None))
    ((_, values),) = next(answer(plan, [rows]))
    assert values["quality"]["mode"] == "approximate"
    assert 0 < values["quality"]["error"] < 1
    assert values["quality"]["low"]["mode_x"] is values["quality"]["high"]["mode_x"] is None
    exact = make_plan([sliding(80, 80)], ("k",), names, shedding=Shedding(0.0, None))
    ((_, values),) = next(answer(exact, [rows]))
    assert values["quality"]["error"] == 0
    assert values["quality"]["low"]["mode_x"] == values["mode_x"]
