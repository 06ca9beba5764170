"""What is kept: of every group its share, drawn fairly."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from muntin.arrays import Int64Array
from muntin.features.shedding.policy import LEAST, Shedding
from muntin.features.shedding.shedder import Shedder
from muntin.features.shedding.strata import kept_by_concept, kept_uniformly, random_numbers, shares

GROUPS = st.lists(st.integers(0, 6), min_size=1, max_size=200)
RATES = st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.98, 0.999])


@given(GROUPS, RATES, st.integers(0, 9))
def test_every_group_keeps_its_share(groups: list[int], rate: float, seed: int) -> None:
    of = np.array(groups)
    received = np.bincount(of)
    share = np.minimum(received, np.maximum(np.minimum(received, LEAST), ((1 - rate) * received).astype(np.int64)))
    kept = kept_by_concept(of, received, share, random_numbers(seed))
    assert np.bincount(of[kept], minlength=len(received)).tolist() == share.tolist()
    again = kept_by_concept(of, received, share, random_numbers(seed))
    assert np.array_equal(kept, again)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5000)), min_size=1, max_size=40), RATES)
def test_shares_fill_the_budget_of_a_pane_and_leave_no_group_out(groups: list[tuple[int, int]], rate: float) -> None:
    pane, received = (np.array(each) for each in zip(*groups, strict=True))
    share = shares(received, pane, rate)
    least = np.minimum(received, LEAST)
    assert np.all((share >= least) & (share <= received))
    for each in np.unique(pane):
        within = pane == each
        budget = np.ceil((1 - rate) * received[within].sum())
        assert share[within].sum() <= 1.5 * budget + least[within].sum() + 0.5 * within.sum()
    assert np.all(share >= np.floor((1 - rate) * received / 2)), "half of its proportion is every group's"


def test_as_many_groups_as_tuples_to_keep_do_not_starve_the_frequent_ones() -> None:
    received = np.append([5000, 1000], np.ones(600, dtype=np.int64))
    for rate in np.linspace(0.5, 0.99, 200):
        share = shares(received, np.zeros(len(received)), float(rate))
        assert share[0] >= (1 - rate) * 5000 / 2 - 1
        assert share[2:].tolist() == [1] * 600


def test_infrequent_groups_are_kept_whole_and_large_ones_in_proportion() -> None:
    received = np.array([100_000, 50_000, 3, 2, 1])
    share = shares(received, np.zeros(5), 0.9)
    assert share[2:].tolist() == [3, 2, 1]
    assert share.sum() <= 15_001
    assert abs(share[0] / share[1] - 2) < 0.2


def test_all_tuples_of_a_group_are_as_likely_to_be_kept() -> None:
    """Chi-square over 4,000 draws; the chance of a false alarm is one in a thousand, and the seed is fixed."""
    groups = np.repeat([0, 1, 2, 3, 4], [30, 7, 400, 300, 300])
    received = np.bincount(groups)
    share = np.array([6, 7, 8, 150, 290])
    counts = np.zeros(len(groups))
    for seed in range(4000):
        counts[kept_by_concept(groups, received, share, random_numbers(seed))] += 1
    assert np.all(counts[groups == 1] == 4000)
    for group in (0, 2, 3, 4):
        assert chisquare(counts[groups == group]).pvalue > 0.001


@pytest.mark.parametrize("keep", [0, 3, 20, 37, 40])
def test_by_chance_all_tuples_are_as_likely_to_be_kept(keep: int) -> None:
    """Chi-square over 4,000 draws out of 40."""
    counts = np.zeros(40)
    for seed in range(4000):
        kept = kept_uniformly(40, keep, random_numbers(seed))
        assert len(kept) == keep
        assert np.all(np.diff(kept) > 0), "in order, and none twice"
        counts[kept] += 1
    assert keep in (0, 40) or chisquare(counts).pvalue > 0.001


MANY_RATES = st.one_of(
    st.integers(1, 9999).map(lambda n: n / 10_000), st.sampled_from([0.98, 0.9, 0.7, 1e-9]), st.floats(0.001, 0.999)
)


@given(MANY_RATES, st.integers(1, 3_000_000))
def test_a_pane_keeps_its_share_to_the_tuple(rate: float, received: int) -> None:
    """Against rational numbers: the rate is the decimal number that was written."""
    exact = received * (1 - Fraction(repr(rate)))
    (share,) = shares(np.array([received]), np.zeros(1), rate)
    assert share == max(ceil(exact), min(received, LEAST))


def test_a_rate_of_98_in_a_hundred_keeps_4_of_200() -> None:
    assert shares(np.array([200]), np.zeros(1), 0.98).tolist() == [4]
    found = [len(Shedder(Shedding(0.98, None, "uniform"), task).kept_uniformly(*batch(200))[0]) for task in range(20)]
    assert found == [4] * 20


def batch(count: int) -> tuple[Int64Array, Int64Array]:
    """Times, and how many tuples the one group has."""
    return np.arange(count), np.array([count])


@given(MANY_RATES, st.lists(st.integers(1, 3000), min_size=1, max_size=8), st.integers(0, 99))
def test_a_task_keeps_its_share_to_the_tuple_whatever_its_batches_are(rate: float, sizes: list[int], task: int) -> None:
    shedder = Shedder(Shedding(rate, None, "uniform"), task)
    received = kept = 0
    for size in sizes:
        kept += len(shedder.kept_uniformly(*batch(size))[0])
        received += size
        exact = received * (1 - Fraction(repr(rate)))
        assert floor(exact) <= kept <= ceil(exact)
    assert shedder.shed_rows == received - kept


def test_what_is_rounded_is_rounded_up_as_often_as_it_should_be() -> None:
    """0.3 of a tuple, in 4,000 tasks: 1,200 give or take four deviations."""
    found = [len(Shedder(Shedding(0.9, None, "uniform"), task).kept_uniformly(*batch(3))[0]) for task in range(4000)]
    assert set(found) == {0, 1}
    assert abs(sum(found) - 1200) < 4 * np.sqrt(4000 * 0.3 * 0.7)


def test_tasks_and_seeds_draw_for_themselves_and_a_replay_draws_the_same() -> None:
    times = np.arange(1000)
    groups = np.zeros(1000, dtype=np.int64)

    def kept(seed: int, task: int) -> list[int]:
        found, _ = Shedder(Shedding(0.9, None, seed=seed), task).kept_by_concept(
            times, groups, np.array([len(groups)]), np.zeros(1)
        )
        return [int(each) for each in found]

    assert kept(0, 0) == kept(0, 0)
    assert kept(0, 0) != kept(0, 1)
    assert kept(0, 0) != kept(1, 0)


def test_the_shed_are_counted() -> None:
    shedder = Shedder(Shedding(0.9, None))
    kept, _ = shedder.kept_by_concept(np.arange(1000), np.zeros(1000, dtype=np.int64), np.array([1000]), np.zeros(1))
    assert shedder.shed_rows + len(kept) == 1000
    assert not Shedder(Shedding(0.0, None)).sheds
