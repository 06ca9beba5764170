"""What is to be added to what kept tuples say: against the formulas, and only where tuples were shed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays import Float64Array, Runs, State, fold_runs
from muntin.engine.plan import Plan
from muntin.features.shedding.corrections import Correction, Missing, estimates, partials
from muntin.features.shedding.scaled import Kind, Scaled, ShedSizes
from muntin.features.shedding.strata import kept_by_concept, random_numbers
from muntin.features.shedding.weighed import Estimates, Weighed
from muntin.panes import packed
from muntin.panes.table import PaneTable
from muntin.partials.partial import Count, FloatSum, IntegerSum
from muntin.partials.rows import Rows
from muntin.partials.strata import Strata
from tests import strategies
from tests.builders import answer, make_plan, pack, row, sliding
from tests.naive import Row
from tests.shedding.test_shed import policy, shed_rows
from tests.shedding.test_weighed import MADE, SIZE, WINDOWS, Stratum, strata

WEIGHED = Weighed("counts", "x")


def rows_of(parts: list[Stratum]) -> Rows:
    """Each stratum a group."""
    columns = [pa.array(np.concatenate([getattr(part, name) for part in parts])) for name in ("x", "counts")]
    batch = pa.record_batch([columns[0], columns[1].cast(pa.bool_())], names=["x", "counts"])
    groups = np.repeat(np.arange(len(parts)), [len(part.x) for part in parts])
    received = np.array([float(part.received) for part in parts])
    return Rows(batch, np.zeros(len(groups), np.int64), groups, len(parts), Strata(received))


def corrected(parts: list[Stratum]) -> tuple[Estimates, int]:
    """What is estimated of the window of these strata, and how many tuples it misses."""
    of_incomplete = [part for part in parts if part.received > len(part.x)]
    kept, together = rows_of(parts), Runs.of(np.array([0]), len(parts))
    known = [each.reduce(each.lift(kept), together) for each in (Count("counts", "x"), FloatSum("counts", "x"))]
    shed, runs = rows_of(of_incomplete), Runs.of(np.array([0]), len(of_incomplete))
    correction, missing = Correction("counts", "x"), Missing(None)
    (count,) = missing.reduce(missing.lift(shed), runs)
    return estimates([correction.reduce(correction.lift(shed), runs), *known]), int(count[0])


@given(strata().filter(lambda parts: any(part.received > len(part.x) for part in parts)))
def test_what_is_known_and_corrected_is_what_all_strata_say(parts: list[Stratum]) -> None:
    """Cochran's formulas for a stratified sample, over all strata, those of which nothing was shed among them."""
    found, missing = corrected(parts)
    assert missing == sum(part.received - len(part.x) for part in parts)
    count = sum(part.counts.mean() * part.received for part in parts)
    assert found["count"][0] == pytest.approx(count)
    assert found["kept"][0] == sum(part.counts.sum() for part in parts)
    if not count:
        return
    total = sum((part.counts * part.x).mean() * part.received for part in parts)
    assert found["sum"][0] == pytest.approx(total, rel=1e-9, abs=1e-6)
    assert found["mean"][0] == pytest.approx(total / count, rel=1e-9, abs=1e-6)
    factors = [part.received * (part.received / len(part.x) - 1) for part in parts]
    away = [part.counts * (part.x - total / count) for part in parts]
    variance = sum(f * d.var(ddof=1) for f, d in zip(factors, away, strict=True))
    assert found["variance"][0] == pytest.approx(variance, rel=1e-6, abs=1e-3)
    of_count = sum(f * part.counts.var(ddof=1) for f, part in zip(factors, parts, strict=True))
    assert found["count_variance"][0] == pytest.approx(of_count, rel=1e-9, abs=1e-9)
    both = sum(f * np.cov(d, p.counts)[0, 1] for f, d, p in zip(factors, away, parts, strict=True))
    assert found["covariance"][0] == pytest.approx(both, rel=1e-6, abs=1e-2)


@given(st.lists(strata(), min_size=1, max_size=4))
def test_runs_are_reduced_to_what_merging_comes_to(runs: list[list[Stratum]]) -> None:
    shed = [[Stratum(part.x, part.counts, part.received + 1) for part in parts] for parts in runs]
    correction = Correction("counts", "x")
    state = correction.lift(rows_of([part for parts in shed for part in parts]))
    together = Runs.of_lengths(np.array([len(parts) for parts in shed]))
    reduced, merged = correction.reduce(state, together), fold_runs(state, together, correction.combine)
    for at, (one, other) in enumerate(zip(points(reduced), points(merged), strict=True)):
        scale = max(1.0, float(np.abs(other).max()))
        assert one == pytest.approx(other, rel=1e-6, abs=1e-7 * scale), at


def points(state: State) -> tuple[Float64Array, ...]:
    """The fields, with the parabola by three of its points: where it is flat, it has no lowest one."""
    count, total, lowest, height, rise, certainty = state
    return (count, total, rise, certainty, *(height + rise * (lowest - at) ** 2 for at in (0.0, 7.0, 1e6)))


@pytest.mark.parametrize(("others", "mean"), [([2.0, 7.0], np.inf), ([-np.inf], np.nan), ([np.nan], np.nan)])
def test_an_infinite_value_makes_the_mean_infinite_or_none(others: list[float], mean: float) -> None:
    for value in ([np.inf, *others], [*others, np.inf]):
        found, _ = corrected([Stratum(np.full(3, each), np.ones(3), 30) for each in value])
        assert found["mean"].tolist() == pytest.approx([mean], nan_ok=True)


def test_sums_that_are_there_are_used() -> None:
    weighed = Weighed(None, "n")
    own = IntegerSum(None, "n")
    assert partials(weighed, (own, Count(None, "n")))[-1] is own
    assert partials(weighed, ()) == (Correction(None, "n"), Count(None, "n"))
    n = np.array([5, 7, 1 << 40], dtype=np.int64)
    rows = Rows(pa.record_batch([pa.array(n)], names=["n"]), n, np.zeros(3, np.int64), 1, Strata(np.array([6.0])))
    found = estimates([each.lift(rows) for each in partials(weighed, (own,))])
    assert (found["count"][0], found["sum"][0]) == (6.0, 2.0 * n.sum())


@pytest.mark.parametrize("kind", ["mean", "sum"])
@pytest.mark.parametrize("made", ["normal", "bimodal", "uniform", "constant", "lognormal"])
@pytest.mark.parametrize("counting", [1.0, 0.6])
def test_intervals_cover(made: str, kind: Kind, counting: float) -> None:
    """3,000 windows of two strata of 250 tuples, of which 40 and 20 are kept; all of them count, or six of ten.

    At least 95 % less 1.6 points, four times the deviation of that share; less 3 for skewed values:
    where six of ten count, the mean is one of 36.
    """
    random = np.random.default_rng(5)
    x, counts = MADE[made](random), random.random((WINDOWS, SIZE)) < counting
    of = np.repeat(np.arange(2 * WINDOWS), SIZE // 2)
    received = np.bincount(of)
    kept = kept_by_concept(of, received, np.tile([40, 20], WINDOWS), random_numbers(6))
    batch = pa.record_batch([pa.array(x.ravel()[kept]), pa.array(counts.ravel()[kept])], names=["x", "counts"])
    rows = Rows(batch, np.zeros(len(kept), np.int64), of[kept], 2 * WINDOWS, Strata(received.astype(np.float64)))
    windows = Runs.of_lengths(np.full(WINDOWS, 2))
    states = [each.reduce(each.lift(rows), windows) for each in partials(WEIGHED, (FloatSum("counts", "x"),))]
    shed_windows = ShedSizes(np.full(WINDOWS, 60), np.full(WINDOWS, float(SIZE)), False, 0.95)
    found = Scaled(kind, WEIGHED).interval(pa.nulls(WINDOWS), estimates(states), shed_windows)
    assert found is not None
    total = (x * counts).sum(axis=1)
    truth = total if kind == "sum" else total / counts.sum(axis=1)
    assert abs((found.value / truth).mean() - 1) < 0.01
    if made == "constant":
        assert np.isnan([found.low, found.high]).all(), "what was kept is all alike, and tells nothing of the rest"
        return
    covered = ((found.low <= truth + 1e-9) & (truth - 1e-9 <= found.high)).mean()
    assert covered >= 0.95 - (0.03 if made == "lognormal" else 0.016)


def tables(plan: Plan, rows: list[Row]) -> list[PaneTable]:
    sent = pack(plan, [rows])
    return [packed.unpack(plan.layout, each.panes) for each in sent if each.panes is not None]


@given(strategies.rows(min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.999]))
def test_leaves_are_there_only_where_tuples_were_shed(rows: list[Row], rate: float) -> None:
    plan = make_plan([sliding(10, 5)], ("k",), ["mean_x", "sum_n"], shedding=policy(rate))
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
