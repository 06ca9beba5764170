"""Windows answered from samples: in every model, in tables and in streams, with groups and without."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from muntin import windows as W
from muntin.arrays import Float64Array
from muntin.engine import plan as plan_module
from muntin.engine import store as store_module
from muntin.engine.map_stage import PaneStage
from muntin.engine.plan import Plan
from muntin.features.sampling import pause
from muntin.features.sampling.feature import Sampling
from muntin.features.sampling.pause import Pause
from muntin.features.sampling.policy import Approximation
from muntin.features.sampling.samples import Samples
from muntin.features.sampling.store import SampleStore
from tests import builders, strategies
from tests.builders import Found, Step, Stream, answer, answer_table, make_plan, row, sliding, tiny
from tests.naive import Row
from tests.stages.test_models import CLOSING, DELAYS, LIMITS, STEPS, shifted, without_order

TYPES = builders.TYPES | strategies.GROWING
SAMPLED = ["median_x", "quantiles_n", "p90_where", "mode_w", "distinct_n", "distinct_w", "top_w"]
INCREMENTAL = ["count", "mean_x", "sum_n", "max_w", "var_pop", "count_where", "composed"]
NAMES = st.lists(st.sampled_from([*SAMPLED, *INCREMENTAL]), min_size=1, max_size=4, unique=True)
ONE_MODEL = st.one_of(st.builds(sliding, strategies.LENGTHS, strategies.LENGTHS), *strategies.MODELS.values())
WINDOWS = ONE_MODEL.map(lambda window: [window]) | strategies.models(forgets=False)


def policy(
    budget: int | str = 4,
    error: float = 0.4,
    confidence: float = 0.8,
    groups: Sequence[Any] | None = None,
    combine: str = "l1",
    incremental: bool = True,
    seed: int = 0,
) -> Approximation:
    return Approximation.of(budget, error, confidence, groups, combine, incremental, seed)


POLICIES = st.builds(
    policy,
    budget=st.integers(4, 9) | st.sampled_from(["auto", "1 KB"]),
    error=st.sampled_from([0.05, 0.3, 0.9]),
    confidence=st.sampled_from([0.5, 0.95]),
    combine=st.sampled_from(["l1", "max"]),
    incremental=st.booleans(),
    seed=st.integers(0, 5),
)


PATIENCE = st.sampled_from([1, 2, 8])


@st.composite
def plans(draw: st.DrawFn, windows: st.SearchStrategy[list[W.Window]] = WINDOWS) -> tuple[Plan, Plan]:
    """The same query with approximation and without."""
    chosen, keys, names = draw(windows), draw(strategies.KEYS), draw(NAMES)
    shards, delay = draw(strategies.SHARDS), draw(DELAYS)
    names = without_order(names, chosen)
    approximation = draw(POLICIES)
    if approximation.budget_bytes is not None and {"mode_w", "top_w"} & set(names):
        approximation = replace(approximation, budget=5, budget_bytes=None)  # strings have no width
    both = [
        make_plan(chosen, keys, names, shards=shards, streaming=True, types=TYPES, delay=delay, approximation=each)
        for each in (approximation, None)
    ]
    return both[0], both[1]


def run(stream: Stream, steps: Sequence[Step]) -> Iterator[Found]:
    watermark = 0
    for step in [*steps, CLOSING]:
        rows = [shifted(each, watermark) for each in step.rows]
        watermark += step.advance
        yield stream.run(step, rows, watermark)


def without_quality(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "quality"}


@settings(max_examples=30)
@given(plans(), STEPS, LIMITS, PATIENCE)
def test_what_is_not_approximate_is_what_the_query_without_it_says(
    both: tuple[Plan, Plan], steps: list[Step], limits: tuple[int, int, int], patience: int
) -> None:
    plan, exact = both
    assert plan.feature(Sampling) is not None
    with tiny(*limits), patch.object(pause, "PATIENCE", patience):
        expected = list(run(Stream(exact), steps))
        for (found, late), (wanted, too_late) in zip(run(Stream(plan), steps), expected, strict=True):
            assert late == too_late
            for shard, plain in zip(map(by_place, found), map(by_place, wanted), strict=True):
                assert [place for place, _ in shard] == [place for place, _ in plain]
                check(plan, shard, plain)


def by_place(results: list[tuple[Any, dict[str, Any]]]) -> list[tuple[Any, dict[str, Any]]]:
    """The keys of a window are in no order that was promised."""
    return sorted(results, key=lambda each: repr(each[0]))


def check(plan: Plan, shard: list[tuple[Any, dict[str, Any]]], plain: list[tuple[Any, dict[str, Any]]]) -> None:
    sampling = plan.feature(Sampling)
    assert sampling is not None
    allowed = sampling.policy
    sampled: dict[Any, int] = defaultdict(int)
    estimated = set(sampling.plan.estimators)
    for (place, values), (_, others) in zip(shard, plain, strict=True):
        quality = values["quality"]
        assert quality["size"] > 0
        assert (quality["mode"] == "incremental") == (not estimated)
        if quality["mode"] == "approximate":
            assert quality["error"] <= allowed.error
            assert quality["confidence"] == allowed.confidence
            assert quality["sampled"] <= quality["size"]
            sampled[place[:4] if _is_over_time(plan, place[2]) else place] += quality["sampled"]
            values = {name: value for name, value in values.items() if name not in estimated}
            others = {name: value for name, value in others.items() if name not in estimated}
        else:
            assert (quality["error"], quality["confidence"], quality["sampled"]) == (0.0, 1.0, quality["size"])
        assert repr(without_quality(values)) == repr(others)  # to the last bit, but for which NaN
    if allowed.budget is not None:
        assert max(sampled.values(), default=0) <= allowed.budget


def _is_over_time(plan: Plan, title: str) -> bool:
    over_time = plan.over_time
    return over_time is not None and any(window.title == title for window in over_time.models)


@settings(max_examples=20)
@given(plans(), STEPS, LIMITS, PATIENCE)
def test_replays_and_cold_starts_give_the_same_samples(
    both: tuple[Plan, Plan], steps: list[Step], limits: tuple[int, int, int], patience: int
) -> None:
    plan, _ = both
    quiet = [Step(step.rows, step.advance, 1, False, False) for step in steps]
    with tiny(*limits), patch.object(pause, "PATIENCE", patience):
        undisturbed = [told(each) for each in run(Stream(plan), quiet)]
        assert [told(each) for each in run(Stream(plan), steps)] == undisturbed


def told(found: Found) -> list[list[str]]:
    """Results of every shard; keys come in the order in which tasks first met them."""
    return [sorted(map(repr, shard)) for shard in found[0]]


@settings(max_examples=20)
@given(plans(), STEPS)
def test_giving_tuples_up_changes_no_answer_where_budgets_do_not_change(
    both: tuple[Plan, Plan], steps: list[Step]
) -> None:
    """All tuples are kept, and yet samples are the same: what was given up was in none of them."""
    plan, _ = both
    sampling = plan.feature(Sampling)
    if (plan.keys and plan.over_time is not None) or sampling is None or sampling.policy.budget is None:
        return
    pruned = [told(each) for each in run(Stream(plan), steps)]
    with (
        patch.object(Samples, "best_of_later", lambda self, before, kept: self),
        patch.object(Samples, "best_of_panes", lambda self, pane, kept, touched=None: self),
        patch.object(SampleStore, "_first_choice", lambda self, operator, new, kept, cuts: (new, cuts)),
    ):
        assert [told(each) for each in run(Stream(plan), steps)] == pruned


# Promises

Draw = Callable[[np.random.Generator, int], Float64Array]
DATA: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(10, 3, n),
    "lognormal": lambda rng, n: rng.lognormal(0, 1, n),
    "pareto": lambda rng, n: rng.pareto(2.5, n) + 1,
    "bimodal": lambda rng, n: np.where(rng.random(n) < 0.5, rng.normal(5, 1, n), rng.normal(50, 2, n)),
    "constant": lambda rng, n: np.full(n, 4.0),
}
LENGTH = 1_000
"""Microseconds of event time in a window."""


@dataclass(frozen=True)
class Windows:
    """The answers of a query over one long table, and the tuples behind each."""

    answers: pa.Table
    tuples: Mapping[tuple[int, str | None], Float64Array]

    def accelerated(self, aggregate: str) -> list[tuple[float, Float64Array]]:
        """The approximate answers, and all values of their windows in order."""
        found = []
        starts = self.answers.column("window").combine_chunks().field("start").cast(pa.int64()).to_pylist()
        keys = self.answers.column("k").to_pylist() if "k" in self.answers.column_names else [None] * len(starts)
        values, qualities = (self.answers.column(name).to_pylist() for name in (aggregate, "quality"))
        for start, key, value, quality in zip(starts, keys, values, qualities, strict=True):
            if quality["mode"] == "approximate":
                assert quality["sampled"] < quality["size"] == len(self.tuples[start, key])
                found.append((value, self.tuples[start, key]))
        return found


def windows_of(
    rng: np.random.Generator,
    draw: Draw,
    approximation: Approximation,
    names: Sequence[str],
    *,
    count: int,
    per_window: int,
    arrival: str = "shuffled",
    shares: Mapping[str, float] | None = None,
) -> Windows:
    """Tumbling windows over made-up data; with `shares` of groups, by group."""
    total = count * per_window
    time = np.sort(rng.integers(0, count * LENGTH, total))
    x = draw(rng, total)
    if arrival == "sorted":  # by value within each window: what a sample must not depend on
        x = x[np.lexsort((x, time // LENGTH))]
    keys = list(shares or {"": 1.0})
    group = rng.choice(len(keys), total, p=list((shares or {"": 1.0}).values()))
    types = {name: TYPES[name] for name in ("t", "k", "x", "n", "w", "kept")}
    made_up = {
        "t": pa.array(time).cast(TYPES["t"]),
        "k": pa.array(keys).take(pa.array(group)),
        "x": pa.array(x),
        "n": pa.array(rng.integers(0, 50, total)),
        "w": pa.array(["a", "b", "c"]).take(pa.array(rng.integers(0, 3, total))),
        "kept": pa.array(rng.random(total) < 0.4),
    }
    batch = pa.record_batch([made_up[name] for name in types], names=list(types))
    plan = make_plan(
        [sliding(LENGTH, LENGTH)], ("k",) if shares else (), names, types=types, approximation=approximation
    )
    sent = list(PaneStage(plan).run([batch]))
    answers = pa.Table.from_batches(list(answer_table(plan, sent)), plan.result_schema)
    order = np.lexsort((x, group, time // LENGTH))
    cell = (time // LENGTH * len(keys) + group)[order]
    starts = np.flatnonzero(np.append(True, np.diff(cell) != 0))
    parts = np.split(x[order], starts[1:])
    tuples = {
        (int(each) // len(keys) * LENGTH, keys[int(each) % len(keys)] if shares else None): part
        for each, part in zip(cell[starts], parts, strict=True)
    }
    return Windows(answers, tuples)


def most_failures(count: int, confidence: float) -> int:
    """Of windows that each fail with a chance of 1 - confidence, more than this fail once in ten thousand runs."""
    return int(binom.ppf(1 - 1e-4, count, 1 - confidence))


@pytest.mark.parametrize("arrival", ["shuffled", "sorted"])
@pytest.mark.parametrize("data", DATA)
def test_medians_are_within_the_error_as_often_as_promised(data: str, arrival: str) -> None:
    error, confidence = 0.1, 0.95
    allowed = policy(120, error, confidence, seed=3)
    rng = np.random.default_rng(23)
    found = windows_of(rng, DATA[data], allowed, ["median_x"], count=1_500, per_window=400, arrival=arrival)
    medians = found.accelerated("median_x")
    assert len(medians) == 1_500
    failed = sum(
        not np.quantile(values, 0.5 - error) <= median <= np.quantile(values, 0.5 + error) for median, values in medians
    )
    assert failed <= most_failures(len(medians), confidence)


@pytest.mark.parametrize("data", DATA)
def test_means_are_within_the_error_as_often_as_promised(data: str) -> None:
    """The budget is on the verge: some windows are accelerated and others not, and that must not make it worse."""
    error, confidence = 0.1, 0.95
    budget = {"normal": 88, "lognormal": 500, "pareto": 380, "bimodal": 325, "constant": 5}[data]
    allowed = policy(budget, error, confidence, incremental=False, seed=4)
    rng = np.random.default_rng(29)
    found = windows_of(rng, DATA[data], allowed, ["mean_x"], count=2_000, per_window=600)
    means = found.accelerated("mean_x")
    assert 200 < len(means) <= 2_000
    failed = sum(abs(mean - values.mean()) > error * abs(values.mean()) for mean, values in means)
    assert failed <= most_failures(len(means), confidence)


def test_medians_of_skewed_groups_are_within_the_error_and_none_is_missing() -> None:
    error, confidence = 0.15, 0.9
    shares = {"a": 0.7, "b": 0.2, "c": 0.06, "d": 0.03, "e": 0.0095, "f": 0.0005}
    rng = np.random.default_rng(31)
    for combine in ("l1", "max"):
        allowed = policy(400, error, confidence, combine=combine, seed=5)
        found = windows_of(rng, DATA["lognormal"], allowed, ["median_x"], count=300, per_window=3_000, shares=shares)
        assert found.answers.num_rows == len(found.tuples)
        by_window: dict[int, list[float]] = defaultdict(list)
        rows = found.answers.to_pylist()
        for each in rows:
            start = int(each["window"]["start"].timestamp() * 1_000_000)
            values = found.tuples[start, each["k"]]
            by_window[start].append(rank_off(each["median_x"], values, 0.5))
        modes = {mode: sum(each["quality"]["mode"] == mode for each in rows) for mode in ("approximate", "exact")}
        assert modes["approximate"] > 0.4 * len(rows)
        combined = [np.mean(each) if combine == "l1" else max(each) for each in by_window.values()]
        # Each group fails with a chance of 1 - confidence; the mean of six hardly ever does.
        chance = 1 - confidence if combine == "l1" else 6 * (1 - confidence)
        assert sum(each > error for each in combined) <= most_failures(len(combined), 1 - chance)
        most: dict[int, int] = defaultdict(int)
        for each in rows:
            if each["quality"]["mode"] == "approximate":
                most[each["window_id"]] += each["quality"]["sampled"]
        assert 300 <= max(most.values()) <= 400


def rank_off(answer: float, values: Float64Array, probability: float) -> float:
    """How far the rank of an answer is from what was asked for: 0 if the exact quantile is within its ranks."""
    low, high = (np.searchsorted(values, answer, side=side) / len(values) for side in ("left", "right"))
    return float(max(low - probability, probability - high, 0.0))


def test_distinct_counts_are_within_the_error_as_often_as_promised() -> None:
    error, confidence = 0.2, 0.9
    count, per_window = 600, 2_000
    rng = np.random.default_rng(37)
    time = np.sort(rng.integers(0, count * LENGTH, count * per_window))
    n = rng.integers(0, 3_000, len(time))
    types = {"t": TYPES["t"], "n": TYPES["n"]}
    batch = pa.record_batch([pa.array(time).cast(TYPES["t"]), pa.array(n)], names=["t", "n"])
    plan = make_plan(
        [sliding(LENGTH, LENGTH)], (), ["distinct_n"], types=types, approximation=policy(120, error, confidence)
    )
    answers = pa.Table.from_batches(list(answer_table(plan, list(PaneStage(plan).run([batch])))), plan.result_schema)
    failed, accelerated, sided = 0, 0, 0
    for each in answers.to_pylist():
        start = int(each["window"]["start"].timestamp() * 1_000_000)
        truth = len(np.unique(n[time // LENGTH == start // LENGTH]))
        if each["quality"]["mode"] == "approximate":
            accelerated += 1
            failed += abs(each["distinct_n"] - truth) > error * truth
            sided += not each["quality"]["low"]["distinct_n"] <= truth <= each["quality"]["high"]["distinct_n"]
    assert accelerated == count
    assert max(failed, sided) <= most_failures(accelerated, confidence)


def test_modes_are_within_the_error_as_often_as_promised() -> None:
    """Every window is answered from its sample, so no sample is preferred; a few values are nearly as frequent."""
    error, confidence = 0.2, 0.9
    count, per_window = 500, 400
    rng = np.random.default_rng(61)
    time = np.sort(rng.integers(0, count * LENGTH, count * per_window))
    shares = np.array([0.21, 0.2, 0.19, *[0.4 / 60] * 60])
    w = rng.choice(len(shares), len(time), p=shares)
    types = {"t": TYPES["t"], "w": TYPES["w"]}
    batch = pa.record_batch([pa.array(time).cast(TYPES["t"]), pa.array(w).cast(TYPES["w"])], names=["t", "w"])
    allowed = policy(100, error, confidence)
    plan = make_plan([sliding(LENGTH, LENGTH)], (), ["mode_w", "top_w"], types=types, approximation=allowed)
    answers = pa.Table.from_batches(list(answer_table(plan, list(PaneStage(plan).run([batch])))), plan.result_schema)
    failed = off = 0
    for each in answers.to_pylist():
        assert each["quality"]["mode"] == "approximate"
        start = int(each["window"]["start"].timestamp() * 1_000_000)
        window = np.bincount(w[time // LENGTH == start // LENGTH], minlength=len(shares))
        bound = each["quality"]["error"] * window.sum()
        failed += window.max() - window[int(each["mode_w"])] > bound
        off += max(abs(pair["count"] - window[int(pair["item"])]) for pair in each["top_w"]) > bound + 0.5
    assert max(failed, off) <= most_failures(count, confidence)


def test_a_budget_is_found_for_what_is_asked() -> None:
    """With budget="auto" nearly every window is accelerated, from a small part of it."""
    rng = np.random.default_rng(41)
    for data in ("normal", "lognormal"):
        allowed = policy("auto", 0.1, 0.95, incremental=False)
        found = windows_of(rng, DATA[data], allowed, ["median_x", "mean_x"], count=60, per_window=5_000)
        qualities = found.answers.column("quality").to_pylist()
        assert sum(each["mode"] == "approximate" for each in qualities) >= 57
        most = {"normal": 500, "lognormal": 4_000}[data]  # the bound of a skewed mean needs many
        assert max(each["sampled"] for each in qualities if each["mode"] == "approximate") < most


def test_known_groups_share_the_budget_alike() -> None:
    rng = np.random.default_rng(43)
    shares = {"a": 0.9, "b": 0.05, "c": 0.05}
    allowed = policy(360, 0.2, 0.9, groups=["a", "b", "c"])
    found = windows_of(rng, DATA["normal"], allowed, ["median_x"], count=20, per_window=9_000, shares=shares)
    assert {each["sampled"] for each in found.answers.column("quality").to_pylist()} == {120}


def test_more_groups_than_the_budget_are_answered_exactly() -> None:
    rng = np.random.default_rng(47)
    shares = {f"key {i}": 1 / 30 for i in range(30)}
    found = windows_of(rng, DATA["normal"], policy(20, 0.9, 0.5), ["median_x"], count=10, per_window=900, shares=shares)
    assert {each["mode"] for each in found.answers.column("quality").to_pylist()} == {"exact"}


def test_a_budget_in_bytes_is_kept_by_what_is_held() -> None:
    """A stream of one group: the arrays of the samples that a window is answered from never take more."""
    size = 4_000
    plan = make_plan([sliding(60, 60)], (), ["median_x"], streaming=True, approximation=policy(f"{size} B", 0.2, 0.9))
    stream = Stream(plan)
    rng = np.random.default_rng(53)
    accelerated = 0
    for start in range(0, 600, 60):
        rows = [row(start + int(t), x=float(x)) for t, x in zip(rng.integers(0, 60, 400), rng.random(400), strict=True)]
        stream.batch(rows, start)
        accelerated += stream.total("approximate_windows")
        assert 0 < stream.total("sample_bytes") <= size
        assert stream.total("resident_bytes") == 0 or start < 120
    assert accelerated > 5


def test_chunks_are_left_to_the_state_until_a_window_needs_them() -> None:
    plan = make_plan([sliding(60, 20)], (), ["median_x"], streaming=True, approximation=policy(60, 0.3, 0.9))
    stream = Stream(plan)
    for start in range(0, 400, 20):
        stream.batch([row(start + i % 20, x=float(i)) for i in range(200)], start)
    assert stream.total("approximate_windows") == 1
    assert stream.total("chunk_tuples") > 200
    assert (stream.total("resident_bytes"), stream.total("left_chunks")) == (0, stream.total("chunks"))


def test_groups_beyond_the_budget_are_left_to_the_state() -> None:
    plan = make_plan([sliding(60, 20)], ("k",), ["mean_x"], streaming=True, approximation=policy(4))
    stream = Stream(plan)
    stream.batch([row(i, k=f"key {i % 9}") for i in range(60)], 0)
    stream.batch([row(i, k=f"key {i % 9}") for i in range(60, 120)], 60)
    assert stream.total("cache_misses") == 1
    (found,), _ = stream.batch([], 120)
    assert len(found) == 9 * 3
    assert all(values["quality"]["mode"] == "incremental" for _, values in found)


@given(plans(ONE_MODEL.map(lambda window: [window])), strategies.growing_rows(max_size=40))
def test_a_table_is_answered_as_a_stream_of_one_batch(both: tuple[Plan, Plan], rows: list[Row]) -> None:
    """So a table is sampled in the same way; and what is not approximate is what it would be without."""
    plan, exact = both
    found, wanted = (list(answer(each, [rows])) for each in (plan, exact))
    for shard, plain in zip(found, wanted, strict=True):
        check(plan, shard, plain)


# Pauses


def test_sampling_pauses_while_it_is_of_no_use_and_begins_again() -> None:
    """Windows of many tuples that 60 cannot answer, as sizes tell; then small ones of which 60 are most."""
    plan = make_plan([sliding(20, 20)], (), ["median_x"], streaming=True, approximation=policy(60, 0.07, 0.95))
    exact = make_plan([sliding(20, 20)], (), ["median_x"], streaming=True)
    streams = Stream(plan), Stream(exact)
    sampled, modes = [], []
    for start in range(0, 20 * 160, 20):
        count = 400 if start < 800 else 70
        rows = [row(start + i % 20, x=float(i * 7 % 31)) for i in range(count)]
        (found,), (wanted,) = (stream.batch(rows, start)[0] for stream in streams)
        for (place, told_values), (other, plain) in zip(found, wanted, strict=True):
            assert place == other
            modes.append(told_values["quality"]["mode"])
            if modes[-1] == "exact":
                assert told_values["median_x"] == plain["median_x"]
        sampled.append(streams[0].total("sample_tuples"))
    assert modes[:39] == ["exact"] * 39
    assert not any(sampled[4:40])
    assert "approximate" in modes[39:44]
    assert modes[-1] == "approximate"


@pytest.mark.parametrize(("slide", "begun"), [(20, 0), (10, 3)])
def test_sampling_pauses_while_there_are_more_groups_than_tuples_in_the_budget(slide: int, begun: int) -> None:
    """Forty groups, and a budget of thirty tuples; then three of them. The panes have forty, or twenty each."""
    allowed = policy(30, 0.3, 0.95, incremental=False)
    plan = make_plan([sliding(20, slide)], ("k",), ["median_x", "mean_x"], streaming=True, approximation=allowed)
    stream, sampled, modes = Stream(plan), [], []
    for start in range(0, 20 * 60, 20):
        groups = 40 if start < 400 else 3
        rows = [row(start + i % 20, k=f"k{i % groups}", x=1 + i % 7 / 100) for i in range(240)]
        (found,), _ = stream.batch(rows, start)
        modes += [{values["quality"]["mode"] for _, values in found}] * bool(found)
        sampled.append(stream.total("sample_tuples"))
    assert modes[:19] == [{"exact"}] * 19
    assert all(sampled[:begun])
    assert not any(sampled[begun:20])
    assert {"approximate"} in modes[19:24]
    assert modes[-1] == {"approximate"}


@patch.object(plan_module, "MOST_CHUNKS", 1)
@patch.object(store_module, "FANOUT", 1000)
def test_tuples_that_wait_in_a_pause_are_counted_once() -> None:
    """Pauses begin and end within a chunk, and no segment is folded; with late tuples, cold workers and replays."""
    windows = [sliding(10, 10), sliding(160, 160)]
    plan = make_plan(windows, (), ["median_x"], streaming=True, approximation=policy(30, 0.12, 0.95))
    exact = make_plan(windows, (), ["median_x"], streaming=True)
    streams, waits = (Stream(plan), Stream(exact)), []
    for number in range(160):  # a chunk is as long as the longer windows
        start = 5 * number
        count = 60 if number // 4 % 2 else 6
        rows = [
            row(max(start + i % 5 - (20 if i % 7 == 0 else 0), 0), x=float((61 * number + i) * 7919 % 9973))
            for i in range(count)
        ]
        step = Step(rows, 0, 1, number % 3 == 0, number % 4 == 0)
        (found,), (wanted,) = (stream.run(step, rows, start - 8)[0] for stream in streams)
        assert [place for place, _ in found] == [place for place, _ in wanted]
        for (_, told_values), (_, plain) in zip(found, wanted, strict=True):
            assert told_values["quality"]["mode"] == "exact"
            assert told_values["median_x"] == plain["median_x"]
        sizes = streams[0].total("tuples")
        waits.append(streams[0].store(plan.shards[0]).header.waits)
        assert sizes == 0 or waits[-1]
    assert sum(1 for before, after in pairwise(waits) if before != after) >= 3


def test_sampling_is_tried_again_where_sizes_do_not_tell() -> None:
    """Means of values that differ too much for a sample, and then less."""
    allowed = policy(60, 0.1, 0.95, incremental=False)
    plan = make_plan([sliding(20, 20)], (), ["mean_x"], streaming=True, approximation=allowed)
    stream, sampled, modes = Stream(plan), [], []
    for start in range(0, 20 * 160, 20):
        spread = 100.0 if start < 800 else 0.01
        rows = [row(start + i % 20, x=1 + spread * (i * 7 % 31 - 15)) for i in range(310)]
        (found,), _ = stream.batch(rows, start)
        modes += [values["quality"]["mode"] for _, values in found]
        sampled.append(stream.total("sample_tuples"))
    assert modes[:39] == ["exact"] * 39
    assert 0 in sampled[8:40]  # paused
    assert any(sampled[12:40])  # and tried again
    assert modes[-1] == "approximate"


def test_a_pause_lasts_while_sizes_say_so() -> None:
    assert not Pause().after(10, 0, 3, 1).is_on(11)
    state = Pause().after(10, 0, 3, 0)
    assert state.is_on(11)
    assert state.is_on(1 << 60)
    assert state.after(30, 0, 0, 0) == state
    assert state.after(40, 0, 0, 1) == Pause(0, 40)


def test_a_pause_grows_and_ends() -> None:
    state = Pause()
    for now in range(10, 10 + 10 * pause.PATIENCE, 10):
        assert not state.is_on(now)
        state = state.after(now, 0, 3, 3)
    last = 10 * pause.PATIENCE
    assert state.until == last + (last - 10)
    again = state.after(state.until + 10, 0, 1, 1)
    assert again.until == state.until + 10 + 2 * 10
    for _ in range(10):
        assert again.until is not None
        again = again.after(again.until + 10, 0, 1, 1)
    assert again.until is not None
    assert again.tried_from == again.until
    assert Pause(40, 100, 100).after(110, 0, 1, 1).until == 110 + pause.LONGEST * 10
    assert again.after(again.until + 10, 1, 5, 5) == Pause(0, again.until + 10)
    assert again.after(again.until + 10, 0, 0, 0) == again


def test_exact_answers_may_be_larger_than_doubles_can_tell() -> None:
    """The interval of an exact answer is the answer, as a double."""
    plan = make_plan([sliding(10, 10)], names=["sum_n", "median_x"], approximation=policy(2, 0.9))
    large = 2**60 + 1
    ((_, values),) = next(answer(plan, [[row(t, n=large if t == 0 else 0) for t in range(9)]]))
    assert values["sum_n"] == large
    assert values["quality"]["low"]["sum_n"] == values["quality"]["high"]["sum_n"] == 2.0**60
