"""What a function gets of a window: its share, however short panes are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from muntin.arrays import Float64Array, Int64Array
from muntin.engine.plan import Plan
from muntin.features.shedding.policy import Method, Shedding
from muntin.features.shedding.strata import shares
from muntin.features.shedding.thinned import MORE, chances_of, thinned
from muntin.features.workers.policy import Workers
from muntin.holistic.applied import Applied
from muntin.holistic.contents import WindowContents
from muntin.panes.tuples import WEIGHT, Tuples
from tests.builders import Step, Stream, answer, make_plan, row, sliding
from tests.naive import Row

WEIGHTS = st.lists(st.sampled_from([1.0, 2.0, 7.5, 40.0]), min_size=1, max_size=60)
RATES = st.sampled_from([0.3, 0.9, 0.98, 0.9999])


def held(windows: list[list[float]]) -> WindowContents:
    """Windows of one key each, with tuples of these weights, numbered by `n`."""
    sizes = [len(each) for each in windows]
    weights = np.concatenate([np.array(each) for each in windows])
    columns = pa.record_batch([pa.array(np.arange(len(weights))), pa.array(weights)], names=["n", WEIGHT])
    key, behind = np.repeat(np.arange(len(windows)), sizes), np.cumsum(sizes)
    return WindowContents(Tuples(key, np.arange(len(weights)), columns), np.append(0, behind[:-1]), behind)


@given(st.lists(WEIGHTS, min_size=1, max_size=6), RATES, st.integers(0, 3), st.integers(0, 9))
def test_windows_are_cut_to_their_share_and_none_goes_empty(
    windows: list[list[float]], rate: float, of_one: int, seed: int
) -> None:
    before = held(windows)
    window = np.arange(len(windows)) // (of_one + 1)
    chance = np.random.default_rng(seed).random(len(windows))

    def chances(chosen: Int64Array) -> Float64Array:
        return np.asarray(chance[chosen])

    share = shares(np.rint([sum(each) for each in windows]).astype(np.int64), window, rate)
    too_many = np.flatnonzero(np.array([len(each) for each in windows]) > MORE * share)
    found = thinned(before, window, chances, rate)
    if found is None:
        assert not len(too_many)
        return
    cut, after = found
    assert cut.tolist() == too_many.tolist()
    numbers = np.asarray(after.tuples.columns.column("n"))
    for at, begin, end in zip(cut, after.begin, after.end, strict=True):
        own = numbers[begin:end]
        assert 1 <= len(own) <= share[at]
        assert np.all(np.diff(own) > 0), "in order, and none twice"
        assert before.begin[at] <= own[0]
        assert own[-1] < before.end[at]


def test_tuples_are_taken_as_often_as_they_weigh() -> None:
    """Chi-square over 4,000 draws of 5 out of 40 tuples; a false alarm is one in a thousand, and the seed is fixed."""
    weights = np.tile([1.0, 2.0, 1.0, 6.0], 10)
    counts = np.zeros(len(weights))
    random = np.random.default_rng(3)
    for _ in range(4000):
        found = thinned(
            held([weights.tolist()]), np.zeros(1, dtype=np.int64), lambda own: random.random(len(own)), 0.95
        )
        assert found is not None
        counts[np.asarray(found[1].tuples.columns.column("n"))] += 1
    share = counts.sum() / 4000
    assert share == 5  # five in a hundred
    assert chisquare(counts, weights / weights.sum() * counts.sum()).pvalue > 0.001


def test_chances_are_spread_evenly_and_the_same_at_every_replay() -> None:
    keys = np.arange(5000, dtype=np.uint64)
    windows = np.repeat(np.arange(50), 100)
    found = chances_of(7, keys, windows)
    assert np.array_equal(found, chances_of(7, keys, windows))
    assert not np.array_equal(found, chances_of(8, keys, windows))
    assert chisquare(np.histogram(found, 20, (0, 1))[0]).pvalue > 0.001


# Through the stages


def rows_of(panes: int, per_pane: int) -> list[Row]:
    """Ten keys, each with a few tuples in every pane: nothing of which the pane stage could drop."""
    return [
        row(pane, f"k{key}", x=float(pane), n=key)
        for pane in range(panes)
        for key in range(10)
        for _ in range(per_pane)
    ]


def told(table: pa.Table) -> pa.Table:
    x: Float64Array = table["x"].to_numpy()
    return pa.table({"n": [table.num_rows], "mean": [float(x.mean())], "sorted": [bool(np.all(np.diff(x) >= 0))]})


TOLD = Applied(told, pa.schema([("n", pa.int64()), ("mean", pa.float64()), ("sorted", pa.bool_())]), ("x",), "arrow")


def plan_of(rate: float, method: Method = "concept", **others: Any) -> Plan:
    shedding = Shedding(rate, None, method)
    return make_plan([sliding(200, 1)], ("k",), [], applied=TOLD, shedding=shedding, **others)


def test_a_function_gets_the_share_of_a_window_with_many_short_panes() -> None:
    """Windows of 200 panes, each of which has two tuples of a key: all of them are kept, and one in ten is used."""
    (found,) = answer(plan_of(0.9), [rows_of(300, 2)])
    whole = [values for place, values in found if 0 <= place[1] <= 100]
    assert len(whole) == 1010
    for values in whole:
        assert values["quality"]["size"] == 400
        assert values["n"] == values["quality"]["sampled"] == 40
        assert values["quality"]["mode"] == "approximate"
        assert values["sorted"]
    means = np.array([values["mean"] - place[1] for place, values in found if 0 <= place[1] <= 100])
    assert np.all(np.abs(means - 99.5) < 5), "at equal distances, a sample is as even as the window"
    assert abs(means.mean() - 99.5) < 0.5


def test_uniform_shedding_and_a_rate_of_zero_leave_windows_as_they_are() -> None:
    for plan, share in ((plan_of(0.0), 1.0), (plan_of(0.5, "uniform"), 0.5)):
        (found,) = answer(plan, [rows_of(220, 2)])
        sampled = [values["n"] for place, values in found if 0 <= place[1] <= 20]
        assert abs(np.mean(sampled) / 400 - share) < 0.05


def test_who_answers_windows_does_not_matter() -> None:
    """Keyed workers, and agnostic ones, which get windows as jobs; with cold starts and replays."""
    rows = rows_of(260, 2)
    found = []
    for workers in (Workers(), Workers("agnostic", 2)):
        for cold in (False, True):
            stream = Stream(plan_of(0.9, streaming=True, workers=workers))
            results: list[Any] = []
            for part in range(4):
                step = Step([], 65, 1, cold=cold, replay=cold)
                own = [each for each in rows if part * 65 <= each["t"] < (part + 1) * 65]
                results += [each for share in stream.run(step, own, (part + 1) * 65)[0] for each in share]
            found.append(sorted(results, key=repr))
    assert len(found[0]) > 500
    assert any(values["n"] < values["quality"]["size"] / 5 for _, values in found[0])
    for other in found[1:]:
        assert repr(other) == repr(found[0])
