"""Counts of distinct values fail by window: windows that have the same values have samples of their own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from muntin import windows as W
from muntin.arrays import Float64Array
from muntin.engine.map_stage import PaneStage
from muntin.features.sampling.epochs import Epochs
from muntin.features.sampling.feature import Sampling
from muntin.features.sampling.packed import pack_samples, unpack_samples
from muntin.features.sampling.policy import Approximation
from muntin.features.sampling.samples import EVERYTHING, Cuts, Samples
from muntin.features.sampling.store import ShardSamples
from tests import strategies
from tests.builders import TYPES, answer_table, cumulative, make_plan, sliding

LENGTH = 40_000
VALUES = 400
ERROR, CONFIDENCE = 0.25, 0.9
BUDGET = 60
SAME = {name: TYPES[name] for name in ("t", "k", "n")}


def errors(window: W.Window, count: int, keys: str = "a") -> Mapping[str, Float64Array]:
    """The signed relative errors of each key, window by window, in a stream that repeats the same distinct values."""
    time, n = np.arange(count * VALUES) * (LENGTH // VALUES), np.tile(np.arange(VALUES), count)
    rows = [(time, n, key) for key in keys]
    batch = pa.record_batch(
        [
            pa.array(np.concatenate([t for t, _, _ in rows])).cast(SAME["t"]),
            pa.array([key for t, _, key in rows for _ in range(len(t))]),
            pa.array(np.concatenate([values for _, values, _ in rows])),
        ],
        names=["t", "k", "n"],
    )
    policy = Approximation.of(BUDGET * len(keys), 0.9, CONFIDENCE, None, "l1", True, 0)
    plan = make_plan([window], ("k",), ["distinct_n"], types=SAME, approximation=policy, delay=0)
    answers = pa.Table.from_batches(list(answer_table(plan, list(PaneStage(plan).run([batch])))), plan.result_schema)
    found: dict[str, list[float]] = {key: [] for key in keys}
    for each in answers.sort_by("window_id").to_pylist():
        if each["quality"]["size"] >= VALUES:
            assert each["quality"]["mode"] == "approximate"
            found[each["k"]].append(each["distinct_n"] / VALUES - 1)
    return {key: np.array(values) for key, values in found.items()}


def check_independent(one: Float64Array, other: Float64Array) -> None:
    """Neither the errors nor the failures of two series of windows go together: at most once in 15,000 runs."""
    limit = 4 / np.sqrt(len(one))
    for first, second in ((one, other), (np.abs(one) > ERROR, np.abs(other) > ERROR)):
        assert abs(np.corrcoef(first, second)[0, 1]) < limit


WINDOWS = {
    "tumbling": (sliding(LENGTH, LENGTH), 1),
    "sliding": (sliding(LENGTH, LENGTH // 4, offset=3), 4),
    "cumulative": (cumulative(1, LENGTH), 1),
    "count": (W.count(VALUES), 1),
    "count, sliding": (W.count(VALUES, VALUES // 4), 4),
}
"""Windows, and how many windows later one begins that has none of the same rows."""


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_the_same_values_fail_independently(name: str) -> None:
    window, apart = WINDOWS[name]
    found = errors(window, count=400)["a"][::apart]
    assert len(found) >= 390
    failed = int(np.sum(np.abs(found) > ERROR))
    # The estimate of 60 among 400 values has a standard deviation of 0.12, so about four windows of 100 fail.
    assert binom.ppf(1e-4, len(found), 0.02) <= failed <= binom.ppf(1 - 1e-4, len(found), 1 - CONFIDENCE)
    assert len(np.unique(found)) > 50
    check_independent(found[:-1], found[1:])


def test_keys_of_the_same_values_fail_independently() -> None:
    found = errors(sliding(LENGTH, LENGTH), count=400, keys="ab")
    check_independent(found["a"], found["b"])


@given(
    st.sampled_from([sliding(9, 3, offset=1), sliding(3, 3, offset=2), sliding(7, 2), sliding(2, 5), cumulative(4, 3)])
    | strategies.MODELS["count"],
    st.lists(st.integers(-200, 200), min_size=1, max_size=20),
)
def test_all_of_a_window_has_one_hash(window: W.Window, ids: list[int]) -> None:
    plan = make_plan([window], ("k",), ["distinct_n"], types=SAME)
    (operator,) = plan.operators
    epochs, number = Epochs.of(operator), np.array(ids)
    if isinstance(window, W.CountWindow):
        begin, end = window.extent(np.abs(number))
    else:
        assert isinstance(window, W.PaneWindow)
        begin, end = window.start(number), window.end(number)
    for first, last, turn in zip(begin.tolist(), end.tolist(), epochs.turn_of(begin).tolist(), strict=True):
        assert turn < epochs.turns
        salts = epochs.salts(np.arange(first, last), turn)
        assert len(np.unique(salts)) == 1
        # No hash is used for more than two of the longest windows.
        assert salts[0] not in epochs.salts(np.arange(2 * epochs.length) + first + 2 * epochs.length, turn)


@pytest.mark.parametrize("window", [W.session("5 seconds"), W.slide_by_tuple("5 seconds", 2)])
def test_windows_of_any_length_have_one_hash(window: W.Window) -> None:
    (operator,) = make_plan([window], ("k",), ["distinct_n"], types=SAME).operators
    epochs = Epochs.of(operator)
    assert epochs.turns == 1
    assert len(np.unique(epochs.salts(np.array([-5, 0, 1 << 50]), 0))) == 1


def test_samples_of_an_earlier_version_are_given_up() -> None:
    """They had one sample of distinct values, from another hash: windows with their rows are answered exactly."""
    policy = Approximation.of(BUDGET, 0.9, CONFIDENCE, None, "l1", True, 0)
    plan = make_plan([sliding(8, 4)], ("k",), ["median_x", "distinct_n"], types=TYPES, approximation=policy)
    sampling = plan.feature(Sampling)
    assert isinstance(sampling, Sampling)
    (x,) = sampling.plan.specs[0].columns
    key, position = np.array([0, 0, 1]), np.array([1, 5, 2])
    sets = [
        Samples(
            key, position, key.view(np.uint64), columns, Cuts(np.array([1]), np.array([3]), np.array([9])), distinct
        )
        for columns, distinct in (
            (pa.record_batch([pa.array([1.0, 2.0, 3.0])], names=[x]), False),
            (pa.RecordBatch.from_arrays([], names=[]), True),
        )
    ]
    keys = pa.record_batch([pa.array(["a", "b"])], names=["k"])
    read = unpack_samples(plan, sampling.plan, pack_samples(ShardSamples(keys, tuple(sets))))
    assert [len(samples) for samples in read.sets] == [3, 0, 0]
    for samples in read.sets[1:]:
        limits = samples.cuts.limits(np.array([0, 0, 1, 1]), np.array([5, 6, 3, 4]))
        assert limits.tolist() == [0, EVERYTHING, 0, EVERYTHING]
    again = unpack_samples(plan, sampling.plan, pack_samples(read))
    assert [len(samples) for samples in again.sets] == [3, 0, 0]
