"""What is to be added to what kept tuples say: against the formulas, bounded for every data, and only where shed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays import BoolArray, Float64Array, Runs, fold_runs
from muntin.engine.plan import Plan
from muntin.features.shedding.corrections import BoundedCorrection, Missing, Totals, partials
from muntin.features.shedding.scaled import Measure, Scaled
from muntin.features.shedding.weighed import WeighedCount, WeighedMoments
from muntin.panes import packed
from muntin.panes.table import PaneTable
from muntin.partials.partial import Count, FloatSum, IntegerSum
from muntin.partials.rows import Rows
from muntin.partials.strata import Strata
from muntin.statistics.bounded import half_width, stratum
from tests import strategies
from tests.builders import answer, make_plan, pack, row, sliding
from tests.naive import Row
from tests.shedding.test_shed import policy, shed_rows


@dataclass
class Stratum:
    """The tuples of a stratum: their values, which of them count, and which were kept."""

    x: Float64Array
    counts: BoolArray
    kept: BoolArray

    @property
    def all(self) -> Float64Array:
        return self.x[self.counts]

    @property
    def seen(self) -> Float64Array:
        return self.x[self.counts & self.kept]


TUPLES = st.tuples(st.integers(-20, 20).map(float), st.booleans(), st.booleans())


@st.composite
def strata(draw: st.DrawFn) -> list[Stratum]:
    """Some of which may be complete; at least one is not."""
    parts = draw(st.lists(st.lists(TUPLES, min_size=1, max_size=8), min_size=1, max_size=4))
    made = [Stratum(*(np.array(column) for column in zip(*part, strict=True))) for part in parts]
    made[0].kept[0] = False
    return made


def rows_of(parts: list[Stratum]) -> Rows:
    """Each stratum a group."""
    x, counts, kept = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "counts", "kept"))
    groups = np.repeat(np.arange(len(parts)), [len(part.x) for part in parts])

    def rows(mask: BoolArray, received: Rows | None) -> Rows:
        batch = pa.record_batch([pa.array(x[mask]), pa.array(counts[mask])], names=["x", "counts"])
        of_all = Strata(np.bincount(groups, minlength=len(parts)).astype(np.float64))
        return Rows(batch, np.zeros(mask.sum(), np.int64), groups[mask], len(parts), of_all, received)

    return rows(kept, rows(np.ones(len(x), dtype=bool), None))


def totals(parts: list[Stratum]) -> tuple[Totals, int]:
    """What is known of the window of these strata, and how many tuples it misses."""
    kept, together = rows_of(parts), Runs.of(np.array([0]), len(parts))
    known = [each.reduce(each.lift(kept), together) for each in (Count("counts", "x"), FloatSum("counts", "x"))]
    incomplete = np.flatnonzero([not part.kept.all() for part in parts])
    shed, runs = kept.of_groups(incomplete, ["x", "counts"]), Runs.of(np.array([0]), len(incomplete))
    correction, missing = BoundedCorrection("counts", "x"), Missing(None)
    (count,) = missing.reduce(missing.lift(shed), runs)
    return Totals.of([correction.reduce(correction.lift(shed), runs), *known]), int(count[0])


@given(strata())
def test_counts_are_known_and_sums_are_between_their_bounds(parts: list[Stratum]) -> None:
    found, missing = totals(parts)
    assert missing == sum(int((~part.kept).sum()) for part in parts)
    size = sum(len(part.all) for part in parts)
    assert found.count[0] == size
    seen = [part for part in parts if len(part.seen)]
    if not seen:
        assert np.isnan(found.sum(0.9).value[0]) or size == 0
        return
    estimate = sum(part.seen.mean() * len(part.all) for part in seen)
    mean = estimate / sum(len(part.all) for part in seen)
    unseen = [part.all for part in parts if len(part.all) and not len(part.seen)]
    edges = [sum(len(x) * edge(x) for x in unseen) for edge in (np.min, np.max)]
    interval = found.sum(0.9)
    expected = estimate + min(max(mean * sum(map(len, unseen)), edges[0]), edges[1])
    assert interval.value[0] == pytest.approx(expected, abs=1e-9)
    assert interval.low[0] <= expected <= interval.high[0]
    # Whatever was kept, the sum is between what it would be if all shed tuples were the least, or the greatest.
    least, greatest = (
        sum(part.seen.sum() + (len(part.all) - len(part.seen)) * edge(part.all) for part in parts if len(part.all))
        for edge in (np.min, np.max)
    )
    assert interval.low[0] >= least - 1e-6
    assert interval.high[0] <= greatest + 1e-6
    if all(len(part.seen) == len(part.all) for part in parts):
        assert interval.low[0] == pytest.approx(expected) == interval.high[0]


@given(st.lists(strata(), min_size=1, max_size=4))
def test_runs_are_reduced_to_what_merging_comes_to(runs: list[list[Stratum]]) -> None:
    correction = BoundedCorrection("counts", "x")
    state = correction.lift(rows_of([part for parts in runs for part in parts]))
    together = Runs.of_lengths(np.array([len(parts) for parts in runs]))
    reduced, merged = correction.reduce(state, together), fold_runs(state, together, correction.combine)
    for one, other in zip(reduced, merged, strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("is_kept", [True, False])
def test_an_infinite_value_leaves_no_bound(odd: float, is_kept: bool) -> None:
    part = Stratum(np.array([1.0, odd, 2.0, 3.0]), np.ones(4, bool), np.array([True, is_kept, True, False]))
    interval = totals([part])[0].sum(0.95)
    assert np.isnan([interval.low[0], interval.high[0]]).all()
    assert np.isfinite(interval.value[0]) != is_kept


def test_sums_that_are_there_are_used() -> None:
    own = IntegerSum(None, "n")
    assert partials(None, "n", (own, Count(None, "n")))[-1] is own
    assert partials(None, "n") == (BoundedCorrection(None, "n"), Count(None, "n"))


# The inequalities


def drawn_totals(x: Float64Array, n: int, draws: int, random: np.random.Generator) -> Float64Array:
    """Estimates of the sum from as many samples without replacement."""
    order = np.argpartition(random.random((draws, len(x))), n, axis=1)[:, :n]
    return np.asarray(x[order].mean(axis=1) * len(x))


@pytest.mark.parametrize("n", [2, 10, 60, 190])
@pytest.mark.parametrize("made", ["normal", "lognormal", "rare", "bimodal", "constant"])
def test_no_estimate_is_further_off_than_the_bound_says(made: str, n: int) -> None:
    """4,000 samples of each of 200 values, at confidences that would show a bound that is too narrow."""
    random = np.random.default_rng(11)
    x = {
        "normal": random.normal(5, 1, 200),
        "lognormal": random.lognormal(0, 2, 200),
        "rare": np.append(np.zeros(198), [100.0, 50.0]),
        "bimodal": random.choice([0.0, 1.0], 200),
        "constant": np.full(200, 0.1),
    }[made]
    each = [np.array([value]) for value in (200.0, n, x.min(), x.max(), x.mean(), ((x - x.mean()) ** 2).sum())]
    variance, reach, squared_ranges, exact = stratum(*each)
    found = drawn_totals(x, n, 4000, random)
    if made != "lognormal":  # few samples have its greatest values
        assert exact[0] == pytest.approx(found.var(), rel=0.15, abs=1e-12)
    for confidence in (0.5, 0.8, 0.95, 0.99):
        (half,) = half_width(variance, reach, squared_ranges, exact, confidence)
        covered = (np.abs(found - x.sum()) <= half + 1e-9).mean()
        assert covered >= confidence - 3 * np.sqrt(confidence * (1 - confidence) / 4000)


def test_a_stratum_of_which_all_or_none_are_drawn_has_no_doubt() -> None:
    for n in (0.0, 5.0):
        each = [np.array([value]) for value in (5.0, n, 1.0, 9.0, 4.0, 20.0)]
        assert [float(number[0]) for number in stratum(*each)] == [0, 0, 0, 0]


# Moments


@pytest.mark.parametrize("uniform", [False, True])
def test_moments_are_weighed(uniform: bool) -> None:
    """Of 4,000 strata of 40, from 10 kept tuples each: the count, mean and variance are right on average."""
    random = np.random.default_rng(2)
    x = random.gamma(2, 1, (4000, 40))
    kept = np.zeros_like(x, dtype=bool)
    kept[:, :10] = True
    groups = np.repeat(np.arange(4000), 10)
    batch = pa.record_batch([pa.array(x[kept])], names=["x"])
    of_all = Strata(np.full(4000, 40.0), 0.25 if uniform else None)
    rows = Rows(batch, np.zeros(len(groups), np.int64), groups, 4000, of_all)
    count, mean, squares = WeighedMoments(None, "x").lift(rows)
    assert np.all(count == 40)
    assert np.all(WeighedCount(None, "x").lift(rows)[0] == 40)
    assert mean.mean() == pytest.approx(2, abs=0.05)
    variance = Scaled("variance", Measure(None, "x")).dispersion((count, mean, squares))
    assert variance.value.mean() == pytest.approx(2 * 39 / 40, abs=0.1)
    assert np.isnan(variance.low).all()


# Through the stages


def tables(plan: Plan, rows: list[Row]) -> list[PaneTable]:
    sent = pack(plan, [rows])
    return [packed.unpack(plan.layout, each.panes) for each in sent if each.panes is not None]


@given(strategies.rows(min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.999]), st.booleans())
def test_leaves_are_there_only_where_tuples_were_shed(rows: list[Row], rate: float, incremental: bool) -> None:
    names = ["mean_x", "sum_n", "median_x"]
    plan = make_plan([sliding(10, 5)], ("k",), names, shedding=policy(rate, incremental=incremental))
    assert plan.over_time is not None
    at = plan.over_time.incomplete_set
    assert at is not None
    shed = sum(shed_rows(each) for each in pack(plan, [rows]))
    for table in tables(plan, rows):
        (panes, of_incomplete) = table.leaves[0], table.leaves[at]
        places = set(zip(panes.key.tolist(), panes.time.tolist(), strict=True))
        own = list(zip(of_incomplete.key.tolist(), of_incomplete.time.tolist(), strict=True))
        assert own == sorted(set(own))
        assert places.issuperset(own)
        assert np.all(of_incomplete.state[0] > 0)
        shed -= int(of_incomplete.state[0].sum())
    assert shed == 0


def test_a_group_that_is_kept_whole_is_exact_beside_others() -> None:
    rows = [row(0, "a", x=float(i)) for i in range(100)] + [row(0, "b", x=0.25), row(0, "b", x=0.5)]
    plan = make_plan([sliding(10, 10)], ("k",), ["mean_x", "count"], shedding=policy(0.9))
    found = {place[4]: values for place, values in next(answer(plan, [rows]))}
    assert found["b",]["quality"]["mode"] == "incremental"
    assert found["b",]["mean_x"] == 0.375
    assert found["b",]["quality"]["low"]["mean_x"] == found["b",]["quality"]["high"]["mean_x"] == 0.375
    assert found["b",]["quality"]["sampled"] == found["b",]["quality"]["size"] == 2
    assert found["a",]["quality"]["mode"] == "approximate"
    assert found["a",]["count"] == found["a",]["quality"]["size"] == 100
    assert found["a",]["quality"]["sampled"] < 20
    assert found["a",]["quality"]["low"]["mean_x"] < 49.5 < found["a",]["quality"]["high"]["mean_x"]


MADE: dict[str, Callable[[np.random.Generator, tuple[int, int]], Float64Array]] = {
    "normal": lambda random, shape: random.normal(5, 1, shape),
    "lognormal 1": lambda random, shape: random.lognormal(0, 1, shape),
    "lognormal 2": lambda random, shape: random.lognormal(0, 2, shape),
    "pareto": lambda random, shape: random.pareto(1.5, shape),
    "bimodal": lambda random, shape: random.choice([0.0, 100.0], shape) + random.normal(0, 1, shape),
    "zeros": lambda random, shape: np.where(random.random(shape) < 0.99, 0.0, random.lognormal(0, 1, shape)),
    "constant": lambda random, shape: np.full(shape, 0.1),
    "duplicates": lambda random, shape: random.choice([1.0, 2.0, 1000.0], shape, p=[0.9, 0.09, 0.01]),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("method", ["concept", "uniform"])
def test_intervals_cover_through_the_stages(made: str, method: str) -> None:
    """1,000 windows of 60 tuples in two panes, of which a third does not count: at most three deviations below."""
    random = np.random.default_rng(8)
    x = MADE[made](random, (1000, 60))
    counts = random.random(x.shape) < 0.66
    rows = [
        row(10 * window + at // 6, x=float(x[window, at]), kept=bool(counts[window, at]))
        for window in range(1000)
        for at in range(60)
    ]
    shedding = policy(0.8, "uniform" if method == "uniform" else "concept")
    plan = make_plan([sliding(10, 10)], (), ["sum_x", "mean_x", "sum_where", "count_where"], shedding=shedding)
    truths = {"sum_x": x.sum(1), "mean_x": x.mean(1)}
    (found,) = answer(plan, [rows])
    for name, truth in truths.items():
        covered = []
        for place, values in found:
            low, high = (values["quality"][side][name] for side in ("low", "high"))
            assert low is not None
            covered.append(low - 1e-9 <= truth[place[1] // 10] <= high + 1e-9)
        assert len(covered) == 1000
        assert np.mean(covered) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 1000)
    for place, values in found:
        assert values["count_where"] == values["quality"]["low"]["count_where"]
        assert values["count_where"] == counts[place[1] // 10].sum()
