"""Pairs of kept tuples: what they say of all pairs, as statistics and piece by piece."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Float64Array
from muntin.engine.plan import Plan
from muntin.features.shedding.policy import Method, Shedding
from muntin.features.shedding.scaled import Kind, Measure, Scaled
from muntin.joins import pairs, product
from muntin.joins.kept_pairs import AllPairs, KeptPairs
from muntin.joins.names import PLACES, SIDE_FLAGS, TIME, WEIGHTS
from muntin.joins.pairs import OverPairs
from muntin.joins.product import PLACE, Origin, Product
from muntin.joins.shed_pairs import PairEstimates
from muntin.panes.tuples import WEIGHT
from tests import builders, naive
from tests.builders import answer_table, by_shard, check, pack, tiny
from tests.joins import union
from tests.joins.test_aggregates import PAIR_CASES, answers_of, cut
from tests.joins.test_product import LIMITS, PIECES
from tests.naive import Answers, Row

# As statistics

WINDOWS, SIZES, PANES = 1500, {"left": 90, "right": 60}, 3
KEEP = {"left": 15, "right": 12}
"""Of every window; a third of that of each pane."""
CLOSER = Measure("close", "x")


class WindowSamples:
    """Windows of which some tuples of both sides were kept, pane by pane or by chance, and the truth about them.

    A pair's value is its left tuple's `x`. It counts if the right one's `y` is within 1 of that, or if all do.
    """

    def __init__(self, method: Method, seed: int, close: bool = True) -> None:
        random = np.random.default_rng(seed)
        kept: dict[str, Any] = {}
        every: dict[str, Float64Array] = {}
        for which, size in SIZES.items():
            # Values drift from pane to pane, so that strata differ.
            value = random.normal(5, 1, (WINDOWS, size)) + np.linspace(0, 0.5, size)
            pane = np.arange(size) * PANES // size
            if method == "concept":
                chance = random.random((WINDOWS, size))
                share, of_pane = KEEP[which] // PANES, size // PANES
                rank = np.argsort(np.argsort(chance.reshape(WINDOWS, PANES, of_pane)), axis=-1).reshape(WINDOWS, size)
                chosen, weight = rank < share, np.full(size, of_pane / share)
            else:
                rate = KEEP[which] / size
                chosen, weight = random.random((WINDOWS, size)) < rate, np.full(size, 1 / rate)
            every[which] = value
            kept[which] = (chosen, value, weight, pane)
        self.close = close
        self.is_uniform = method == "uniform"
        matches = np.abs(every["left"][:, :, None] - every["right"][:, None, :]) < 1 if close else np.True_
        counts = np.broadcast_to(matches, (WINDOWS, SIZES["left"], SIZES["right"]))
        x = every["left"][:, :, None] * counts
        self.truth = {"count": counts.sum((1, 2)).astype(float), "sum": x.sum((1, 2))}
        self.truth["mean"] = self.truth["sum"] / self.truth["count"]
        self.truth["variance"] = (every["left"][:, :, None] ** 2 * counts).sum((1, 2)) / self.truth["count"]
        self.truth["variance"] -= self.truth["mean"] ** 2
        parts = []
        for window in range(WINDOWS):
            sides = [np.flatnonzero(kept[which][0][window]) for which in SIZES]
            left, right = (each.ravel() for each in np.meshgrid(*sides, indexing="ij"))
            parts.append((np.full(len(left), window), left, right))
        number, left, right = (np.concatenate(each) for each in zip(*parts, strict=True))
        x_of, y_of = kept["left"][1][number, left], kept["right"][1][number, right]
        columns = {
            "x": x_of,
            "close": np.abs(x_of - y_of) < 1 if close else np.ones(len(x_of), dtype=bool),
            WEIGHTS["left"]: kept["left"][2][left],
            WEIGHTS["right"]: kept["right"][2][right],
            PLACES["left"]: left,
            PLACES["right"]: right,
        }
        self.batch = pa.record_batch([pa.array(each) for each in columns.values()], names=list(columns))
        self.number = pa.array(number)

    def interval(self, scaled: Scaled) -> tuple[Float64Array, ...]:
        """Value, low, high and truth of the windows that have pairs."""
        assert scaled.measure is not None
        found = KeptPairs.of([scaled.measure], [self.number], self.batch)
        quality = found.quality(np.arange(len(found.keys[0])), 0.95)
        assert len(quality.approximate) == len(quality.size)
        doubt = np.full(len(quality.size), np.nan) if self.is_uniform else found.doubt(0.95)
        of_all = AllPairs(quality.size.astype(np.float64), doubt)
        interval = of_all.interval(scaled, found.moments[0])
        return interval.value, interval.low, interval.high, self.truth[scaled.kind][np.asarray(found.keys[0])]


@pytest.mark.parametrize("method", ["concept", "uniform"])
@pytest.mark.parametrize("kind", ["count", "sum", "mean", "variance"])
def test_estimates_over_pairs_are_right_on_average_and_counts_are_bounded(kind: Kind, method: Method) -> None:
    """1,500 windows of 90 by 60 tuples, of which 15 and 12 are kept: 95 % less three deviations, 1.7 points."""
    value, low, high, truth = WindowSamples(method, seed=4).interval(Scaled(kind, CLOSER))
    # Variances are too small by about a degree of freedom.
    off = 0.1 if kind == "variance" else 0.04 if method == "uniform" else 0.01
    assert np.nanmean(value / truth) == pytest.approx(1, abs=off)
    if kind == "count" and method == "concept":
        assert ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean() >= 0.95 - 0.017
        assert np.mean(high - low) < SIZES["left"] * SIZES["right"]
    else:
        assert np.isnan(low).all(), "no task sees the values of all pairs"
        assert np.isnan(high).all()


def test_a_count_is_bounded_where_few_tuples_have_most_pairs() -> None:
    """One left tuple in twenty is paired with every right one, the others with none: kept ones often show none."""
    random = np.random.default_rng(6)
    numbers, counts, left, right, truth = [], [], [], [], []
    for window in range(2000):
        matches = random.random(60) < 0.05
        kept = random.permutation(60)[:12]
        truth.append(matches.sum() * 10)
        for place in kept:
            numbers += [window] * 10
            counts += [bool(matches[place])] * 10
            left += [int(place)] * 10
            right += list(range(10))
    columns = {"close": counts, WEIGHTS["left"]: [5.0] * len(left), WEIGHTS["right"]: [1.0] * len(left)}
    columns |= {PLACES["left"]: left, PLACES["right"]: right}
    batch = pa.record_batch([pa.array(each) for each in columns.values()], names=list(columns))
    measure = Measure("close", None)
    found = KeptPairs.of([measure], [pa.array(numbers)], batch)
    quality = found.quality(np.arange(2000), 0.8)
    assert set(quality.size) == {600}
    for confidence in (0.8, 0.99):
        of_all = AllPairs(quality.size.astype(np.float64), found.doubt(confidence))
        interval = of_all.interval(Scaled("count", measure), found.moments[0])
        covered = (interval.low <= np.array(truth)) & (np.array(truth) <= interval.high)
        assert covered.mean() >= confidence - 3 * np.sqrt(confidence * (1 - confidence) / 2000)


def test_the_number_of_all_pairs_is_exact_where_tuples_are_counted() -> None:
    drawn = WindowSamples("concept", seed=6, close=False)
    value, low, high, _ = drawn.interval(Scaled("count", Measure(None, None), counted=True))
    for each in (value, low, high):
        assert np.allclose(each, SIZES["left"] * SIZES["right"])


def test_one_tuple_of_several_does_not_tell_how_far_off_it_is() -> None:
    columns = {"x": [1.0, 2.0], WEIGHTS["left"]: [5.0, 5.0], WEIGHTS["right"]: [1.0, 1.0]}
    columns |= {PLACES["left"]: [0, 0], PLACES["right"]: [1, 2]}
    batch = pa.record_batch([pa.array(each) for each in columns.values()], names=list(columns))
    measure = Measure(None, "x")
    found = KeptPairs.of([measure], [pa.array([7, 7])], batch)
    told = found.quality(np.array([0]), 0.95)
    assert (told.sampled.tolist(), told.size.tolist(), told.approximate.tolist()) == ([2], [10], [0])
    of_all = AllPairs(told.size.astype(np.float64), found.doubt(0.95))
    interval = of_all.interval(Scaled("mean", measure), found.moments[0])
    assert interval.value.tolist() == [1.5]
    assert np.isnan(interval.low).all()


# Through the stages

NAMES = ["count", "count_x", "sum_n", "sum_x", "mean_x", "var_pop", "stddev_samp", "min_x", "max_w", "count_where"]
NAMES += ["sum_where", "composed", "median_x", "mode_w", "sum_m_where"]
CHOSEN = {name: PAIR_CASES[name] for name in NAMES}
NAIVE = union.over_pairs({name: case.naive for name, case in CHOSEN.items()})
KEPT = {WEIGHTS["left"]: Origin(WEIGHT, "left"), WEIGHTS["right"]: Origin(WEIGHT, "right")}
KEPT |= {PLACES["left"]: Origin(PLACE, "left"), PLACES["right"]: Origin(PLACE, "right")}
OF_KEPT = Product(
    pa.schema(
        [*union.PRODUCT.schema, *((name, pa.float64()) for name in WEIGHTS.values())]
        + [pa.field(name, pa.int64()) for name in PLACES.values()]
    ),
    (*union.PRODUCT.origins, *KEPT.values()),
)


def answered(
    window: W.PaneWindow, on: tuple[str, ...], rows: list[Row], policy: Shedding, size: int
) -> tuple[Answers, Answers]:
    """Each side is a task of its own, as on Spark: so are its strata."""
    plan = Plan.make(
        time=TIME,
        windows=(window,),
        types=union.TYPES,
        keys=on,
        aggregates={},
        function=OF_KEPT,
        shards=(0,),
        options=[policy],
    )
    bound = {n: case.aggregate.bind(union.TYPES, case.aggregate.where, builders.TIME) for n, case in CHOSEN.items()}
    over = OverPairs.of(window, on, union.pair_types(on), bound, None, PairEstimates(policy))
    sides = [[row for row in rows if row[mark]] for mark in SIDE_FLAGS.values()]
    (share,) = by_shard(plan, [each for side in sides if side for each in pack(plan, [side])]).values()
    batches = over.run(cut(size, answer_table(plan, share)))
    found = answers_of(over, window.title, batches, [*CHOSEN, "quality"])
    qualities = {place: values.pop("quality") for place, values in found.items()}
    return found, qualities


@settings(max_examples=25)
@given(union.WINDOWS, union.ON, union.sides(max_size=9), PIECES, st.sampled_from([1, 3, 1 << 16]), LIMITS)
def test_if_nothing_was_shed_answers_are_exact(
    windows: list[W.PaneWindow],
    on: tuple[str, ...],
    rows: list[Row],
    pieces: int,
    size: int,
    limits: tuple[int, int, int],
) -> None:
    rows = union.with_keys(rows, on)
    with tiny(*limits), patch.object(product, "MOST_PAIRS", pieces), patch.object(pairs, "_MOST_PARTS", 2):
        found, qualities = answered(windows[0], on, rows, Shedding(0.0, None), size)
    check(list(found.items()), union.joined(naive.answers(rows, windows, on, NAIVE)))
    for quality in qualities.values():
        assert quality["mode"] == "exact"
        assert quality["sampled"] == quality["size"]
        assert quality["error"] == 0


@settings(max_examples=25)
@given(
    union.WINDOWS,
    union.ON,
    union.sides(max_size=30),
    PIECES,
    st.sampled_from([1, 3]),
    st.sampled_from(["concept", "uniform"]),
)
def test_pieces_do_not_matter_and_every_group_is_there(
    windows: list[W.PaneWindow], on: tuple[str, ...], rows: list[Row], pieces: int, size: int, method: Method
) -> None:
    rows, policy = union.with_keys(rows, on), Shedding(0.7, None, method)
    whole, qualities = answered(windows[0], on, rows, policy, 1 << 16)
    with patch.object(product, "MOST_PAIRS", pieces), patch.object(pairs, "_MOST_PARTS", 2):
        cut_up, others = answered(windows[0], on, rows, policy, size)
    check(list(cut_up.items()), whole)
    for place, one in qualities.items():
        other = others[place]
        assert (one["mode"], one["sampled"], one["size"]) == (other["mode"], other["sampled"], other["size"])
    if method == "concept":
        expected = union.joined(naive.answers(rows, windows, on, NAIVE))
        assert whole.keys() == expected.keys()
        assert {place: values["count"] for place, values in whole.items()} == {
            place: values["count"] for place, values in expected.items()
        }


@pytest.mark.parametrize("aggregate", [A.first("x"), A.collect("x"), A.count_distinct("v"), A.argmin("w", "m")])
def test_what_tells_single_pairs_is_refused(aggregate: A.Aggregate) -> None:
    bound = {"odd": aggregate.bind(union.TYPES, None, builders.TIME)}
    with pytest.raises(MuntinError, match=r"odd cannot be computed under shed\(\)"):
        OverPairs.of(
            builders.sliding(10, 10), ("k",), union.pair_types(("k",)), bound, None, PairEstimates(Shedding(0.5, None))
        )
