"""What kept tuples say of all: against the formulas, stratum by stratum, and as statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays import Float64Array, Runs, State, fold_runs
from muntin.features.shedding.scaled import Kind, Scaled, ShedSizes
from muntin.features.shedding.strata import kept_by_concept, kept_uniformly, random_numbers
from muntin.features.shedding.weighed import FIELDS, Weighed, WeighedSquares
from muntin.partials.rows import Rows
from muntin.partials.strata import Strata

WEIGHED, WEIGHED_SQUARES = Weighed("counts", "x"), WeighedSquares("counts", "x")


@dataclass(frozen=True)
class Stratum:
    """The tuples that were kept of one."""

    x: Float64Array
    counts: Float64Array
    received: int

    def lifted(self, weighed: Weighed = WEIGHED) -> State:
        columns = [pa.array(self.x), pa.array(self.counts > 0)]
        batch = pa.record_batch(columns, names=["x", "counts"])
        strata = Strata(np.array([float(self.received)]))
        return weighed.lift(Rows(batch, np.zeros(len(self.x), np.int64), np.zeros(len(self.x), np.int64), 1, strata))


def combined(states: list[State]) -> dict[str, float]:
    state = states[0]
    for each in states[1:]:
        state = WEIGHED.combine(state, each)
    return {name: float(column[0]) for name, column in zip(FIELDS, state, strict=True)}


@st.composite
def strata(draw: st.DrawFn) -> list[Stratum]:
    found = []
    for _ in range(draw(st.integers(1, 6))):
        kept = draw(st.integers(2, 6))
        x = np.array(draw(st.lists(st.integers(-50, 50), min_size=kept, max_size=kept)), dtype=np.float64)
        counts = np.array(draw(st.lists(st.sampled_from([1.0, 1.0, 0.0]), min_size=kept, max_size=kept)))
        found.append(Stratum(x + draw(st.sampled_from([0, 1e6])), counts, kept + draw(st.integers(0, 50))))
    return found


@given(strata(), st.randoms(use_true_random=False))
def test_estimates_and_variances_add_up(parts: list[Stratum], order: st.DataObject) -> None:
    """Cochran's formulas for a stratified sample, over all strata at once."""
    found = combined([part.lifted() for part in parts])
    count = sum(part.counts.mean() * part.received for part in parts)
    assert found["count"] == pytest.approx(count)
    if not count:
        return
    mean = sum((part.counts * part.x).mean() * part.received for part in parts) / count
    assert found["mean"] == pytest.approx(mean, rel=1e-9)
    factors = [part.received * (part.received / len(part.x) - 1) for part in parts]
    away = [part.counts * (part.x - mean) for part in parts]
    variance = sum(f * d.var(ddof=1) for f, d in zip(factors, away, strict=True))
    assert found["variance"] == pytest.approx(variance, rel=1e-6, abs=1e-3)
    of_count = sum(f * part.counts.var(ddof=1) for f, part in zip(factors, parts, strict=True))
    assert found["count_variance"] == pytest.approx(of_count, rel=1e-9, abs=1e-9)
    both = sum(f * np.cov(d, p.counts)[0, 1] for f, d, p in zip(factors, away, parts, strict=True))
    assert found["covariance"] == pytest.approx(both, rel=1e-6, abs=1e-2)


@given(strata())
def test_the_order_of_merging_does_not_matter(parts: list[Stratum]) -> None:
    states = [part.lifted() for part in parts]
    forwards, backwards = combined(states), combined(states[::-1])
    for name in FIELDS:
        assert forwards[name] == pytest.approx(backwards[name], rel=1e-6, abs=1e-3), name


@given(st.lists(strata(), min_size=1, max_size=4))
def test_runs_are_reduced_to_what_merging_comes_to(runs: list[list[Stratum]]) -> None:
    for weighed in (WEIGHED, WEIGHED_SQUARES):
        states = [part.lifted(weighed) for parts in runs for part in parts]
        together = tuple(np.concatenate(columns) for columns in zip(*states, strict=True))
        lengths = Runs.of_lengths(np.array([len(parts) for parts in runs]))
        reduced = weighed.reduce(together, lengths)
        merged = fold_runs(together, lengths, weighed.combine)
        for name, one, other in zip(weighed.names, reduced, merged, strict=True):
            scale = max(1.0, float(np.abs(other).max()))
            assert one == pytest.approx(other, rel=1e-6, abs=1e-7 * scale), name


def test_means_that_are_the_same_stay_the_same_in_a_run() -> None:
    parts = [Stratum(np.full(3, value), np.ones(3), 30) for value in (0.5, 0.5, 0.5, np.inf, np.inf)]
    together = tuple(np.concatenate(columns) for columns in zip(*(part.lifted() for part in parts), strict=True))
    _, mean, squares, *_ = WEIGHED.reduce(together, Runs.of(np.array([0, 3]), 5))
    assert mean.tolist() == [0.5, np.inf]
    assert squares[0] == 0


@pytest.mark.parametrize("order", list(permutations([(np.inf, 3), (2.0, 3), (7.0, 5), (-1e300, 1)])))
def test_an_infinite_mean_stays_so_in_any_order(order: list[tuple[float, int]]) -> None:
    parts = [Stratum(np.full(kept, value), np.ones(kept), 30) for value, kept in order]
    states = [part.lifted() for part in parts]
    together = tuple(np.concatenate(columns) for columns in zip(*states, strict=True))
    runs = Runs.of(np.array([0]), len(parts))
    for _, mean, *_ in (WEIGHED.reduce(together, runs), fold_runs(together, runs, WEIGHED.combine)):
        assert mean.tolist() == [np.inf]


@pytest.mark.parametrize("others", [[-np.inf], [np.nan], [-np.inf, 5.0], [5.0, np.nan]])
def test_infinities_of_both_signs_have_no_mean(others: list[float]) -> None:
    parts = [Stratum(np.full(2, value), np.ones(2), 20) for value in [np.inf, *others]]
    together = tuple(np.concatenate(columns) for columns in zip(*(part.lifted() for part in parts), strict=True))
    runs = Runs.of(np.array([0]), len(parts))
    for _, mean, *_ in (WEIGHED.reduce(together, runs), fold_runs(together, runs, WEIGHED.combine)):
        assert np.isnan(mean).tolist() == [True]


def test_of_everything_it_is_exact() -> None:
    x = np.array([1.0, 4.0, 9.0])
    found = combined([Stratum(x, np.ones(3), 3).lifted()])
    assert (found["count"], found["mean"]) == (3.0, float(x.mean()))
    assert found["squares"] == pytest.approx(((x - x.mean()) ** 2).sum())
    assert found["variance"] == found["count_variance"] == 0


def drawn(method: str, x: Float64Array, groups: int, share: int, seed: int) -> State:
    """Many strata of one window each: `groups` of equally many tuples."""
    of = np.repeat(np.arange(groups), len(x) // groups)
    received = np.bincount(of)
    random = random_numbers(seed)
    if method == "concept":
        kept = kept_by_concept(of, received, np.full(groups, share), random)
        behind = Strata(received.astype(np.float64))
    else:
        kept = kept_uniformly(len(x), share * groups, random)
        behind = Strata(received.astype(np.float64), share / received[0])
    x, of = x[kept], of[kept]
    batch = pa.record_batch([pa.array(x), pa.array(np.ones(len(x), bool))], names=["x", "counts"])
    return WEIGHED_SQUARES.lift(Rows(batch, np.zeros(len(x), np.int64), of, groups, behind))


def interval(kind: Kind, state: State, size: Float64Array, is_uniform: bool) -> tuple[Float64Array, ...]:
    names = list(WEIGHED_SQUARES.names)[: len(state)]
    estimates = dict(zip(names, state, strict=True))
    stood_for = estimates if is_uniform else None  # all of them count
    shed_windows = ShedSizes(state[3].astype(np.int64), size, is_uniform, 0.95, stood_for)
    found = Scaled(kind, WEIGHED).interval(pa.nulls(len(size)), estimates, shed_windows)
    assert found is not None
    return found.value, found.low, found.high


WINDOWS, SIZE = 3000, 500
MADE: dict[str, Callable[[np.random.Generator], Float64Array]] = {
    "normal": lambda random: random.normal(50, 10, (WINDOWS, SIZE)),
    "bimodal": lambda random: random.normal(10, 1, (WINDOWS, SIZE)) + 50 * random.integers(0, 2, (WINDOWS, SIZE)),
    "uniform": lambda random: random.uniform(0, 1, (WINDOWS, SIZE)),
    "constant": lambda random: np.full((WINDOWS, SIZE), 7.0),
    "lognormal": lambda random: random.lognormal(0, 0.5, (WINDOWS, SIZE)),
}


@pytest.mark.parametrize("method", ["concept", "uniform"])
@pytest.mark.parametrize("kind", ["mean", "sum"])
@pytest.mark.parametrize("made", MADE)
def test_intervals_cover(made: str, kind: Kind, method: str) -> None:
    """Of 3,000 windows of 500 tuples, of which 40 are kept, the truth is in at least 95 % of the intervals, less 1.6
    points: four times the deviation of that share. Skewed values get 2.5 points: the mean of 40 is not quite normal.
    """
    x = MADE[made](np.random.default_rng(5))
    state = drawn(method, x.ravel(), WINDOWS, 40, seed=6)
    value, low, high = interval(kind, state, np.full(WINDOWS, float(SIZE)), method == "uniform")
    truth = x.mean(axis=1) if kind == "mean" else x.sum(axis=1)
    if made == "constant":
        assert value == pytest.approx(truth)
        assert np.isnan([low, high]).all(), "what was kept is all alike, and tells nothing of the rest"
        return
    covered = ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean()
    assert covered >= 0.95 - (0.025 if made == "lognormal" else 0.016)
    assert abs((value / truth).mean() - 1) < 0.01


@pytest.mark.parametrize("method", ["concept", "uniform"])
def test_variances_are_not_off_on_average(method: str) -> None:
    x = MADE["normal"](np.random.default_rng(5))
    state = drawn(method, x.ravel(), WINDOWS, 5, seed=6)
    is_uniform, size = method == "uniform", np.full(WINDOWS, float(SIZE))
    if is_uniform:  # too few to tell are left out
        state, size = tuple(each[state[3] > 2] for each in state), size[state[3] > 2]
    value, _, _ = interval("variance", state, size, is_uniform)
    assert np.mean(value) == pytest.approx(100, rel=0.05 if method == "concept" else 0.4)


def test_counts_of_what_fulfils_a_condition_are_covered() -> None:
    """3,000 windows of 500, of which 40 are kept; Clopper and Pearson's interval is never too narrow."""
    random = np.random.default_rng(7)
    fulfils = random.random((WINDOWS, SIZE)) < 0.1
    of = np.repeat(np.arange(WINDOWS), SIZE)
    received = np.bincount(of)
    kept = kept_by_concept(of, received, np.full(WINDOWS, 40), random_numbers(8))
    batch = pa.record_batch([pa.array(fulfils.ravel()[kept])], names=["counts"])
    rows = Rows(batch, np.zeros(len(kept), np.int64), of[kept], WINDOWS, Strata(received.astype(np.float64)))
    state = Weighed("counts", None).lift(rows)
    estimates = dict(zip(FIELDS, state, strict=True))
    shed_windows = ShedSizes(np.full(WINDOWS, 40), np.full(WINDOWS, float(SIZE)), False, 0.95)
    found = Scaled("count", Weighed("counts", None)).interval(pa.nulls(WINDOWS), estimates, shed_windows)
    assert found is not None
    truth = fulfils.sum(axis=1)
    assert ((found.low <= truth) & (truth <= found.high)).mean() >= 0.95
    assert found.value.mean() == pytest.approx(truth.mean(), rel=0.02)
