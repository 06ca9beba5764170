"""Answers from samples, without an engine: how far they are off, and what else could give them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import aggregates as A
from muntin.arrays import Array, Float64Array, run_starts
from muntin.bench.core import ANSWER, Core, Ran, plan_of, slides
from muntin.bench.data_sets import DataSet
from muntin.engine.plan import Plan
from muntin.features.sampling.policy import Approximation

MEDIAN = A.median("value")
MEAN = A.mean("value")


def within(
    budget: int, error: float = 0.1, *, groups: tuple[int, ...] | None = None, incremental: bool = True, seed: int = 0
) -> Approximation:
    """A budget and an error at the paper's confidence of 95 %."""
    return Approximation.of(budget, error, 0.95, groups, "l1", incremental, seed)


def replay_in_batches(data: DataSet, plan: Plan, rows: int) -> float:
    """The seconds that a query takes in all, of windows that close as tuples arrive (figure 9)."""
    core = Core(plan)
    begun = perf_counter()
    for begin in range(0, len(data.tuples), rows):
        core.arrive(data.tuples.slice(begin, rows))
    seconds = perf_counter() - begun
    core.forget()
    return seconds


def accelerated(result: pa.Table, budget: int) -> bool:
    """Whether a sample answered the window: of part of its tuples, or of all where they fit the budget."""
    quality = result["quality"].combine_chunks()
    sizes = np.asarray(quality.field("size"))
    return bool(np.any(np.asarray(quality.field("mode")) == "approximate") or sizes.sum() <= budget)


def rank_error(ordered: Array, answer: float, probability: float) -> float:
    """How far an answer's rank is from the one asked for; `ordered` are the window's values.

    Between two values the rank grows as the quantile does, and an answer that occurs several times has all ranks of
    these. So the error is e if the answer is one of the exact quantiles from `probability - e` to `probability + e`.
    """
    if len(ordered) < 2:
        return 0.0  # it is every quantile
    first, behind = (int(at) for at in (np.searchsorted(ordered, answer, side) for side in ("left", "right")))
    if first == behind:  # between two values, or beyond all of them
        below, above = ordered[max(first - 1, 0)], ordered[min(first, len(ordered) - 1)]
        place = first - 1 + (answer - below) / (above - below) if above > below else float(first)
        low = high = float(np.clip(place, 0, len(ordered) - 1))
    else:
        low, high = float(first), float(behind - 1)
    most = len(ordered) - 1
    return float(max(low / most - probability, probability - high / most, 0.0))


def relative_error(values: Array, answer: float) -> float:
    """How far an answer is from the mean of the values, by that."""
    exact = float(np.mean(values))
    return 0.0 if answer == exact else abs(answer - exact) / abs(exact) if exact else np.inf


def true_error(data: DataSet, end: int, result: pa.Table, aggregate: A.Aggregate) -> float:
    """Of a window that ends there: the mean over its groups, which is what the error of a query is about."""
    told = dict(zip(_codes(result), result[ANSWER].to_pylist(), strict=True))
    errors = []
    for key, values in _groups(data.within(end - data.size, end)):
        answer = told[key]
        errors.append(rank_error(values, answer, 0.5) if aggregate is MEDIAN else relative_error(values, answer))
    return float(np.mean(errors))


def _codes(table: pa.Table) -> list[Any]:
    return table["key"].to_pylist() if "key" in table.column_names else [None] * len(table)


def _groups(tuples: pa.Table) -> Iterator[tuple[Any, Array]]:
    """The values of each group, in order."""
    values = tuples["value"].to_numpy()
    if "key" not in tuples.column_names:
        yield None, np.sort(values)
        return
    keys = tuples["key"].combine_chunks().dictionary_encode()
    codes = keys.indices.to_numpy()
    order = np.lexsort((values, codes))
    starts = run_starts(codes[order])
    for begin, part in zip(starts, np.split(values[order], starts[1:]), strict=True):
        yield keys.dictionary[int(codes[order[begin]])].as_py(), part


def errors_of(data: DataSet, ran: Ran, aggregate: A.Aggregate, budget: int) -> tuple[Float64Array, Array]:
    """The true error of every window, and which of them were accelerated."""
    errors = [true_error(data, end, result, aggregate) for end, result in ran.results.items()]
    return np.array(errors), np.array([accelerated(result, budget) for result in ran.results.values()])


def scan_seconds(data: DataSet) -> list[float]:
    """What each window's grouped mean takes if its tuples are scanned, in one thread as ours is: from the chunks."""
    core, counted, seconds = Core(plan_of(data, MEDIAN)), set(data.ends.tolist()), []
    for end, tuples in slides(data):
        core.arrive(tuples)
        if end in counted:
            begun = perf_counter()
            core.scan(end - data.size, end)
            seconds.append(perf_counter() - begun)
        core.close(end)
    core.forget()
    return seconds


def raw_scan_seconds(data: DataSet) -> list[float]:
    """The same over tuples that lie ready in one table, which no engine has: the least that a scan can take."""
    seconds = []
    for end in data.ends.tolist():
        tuples = data.within(end - data.size, end)
        begun = perf_counter()
        tuples.group_by("key", use_threads=False).aggregate([("value", "mean")])
        seconds.append(perf_counter() - begun)
    return seconds


def has_count_min() -> bool:
    return find_spec("datasketches") is not None


def count_min_seconds(data: DataSet, windows: int, error: float = 0.1, confidence: float = 0.95) -> list[float]:
    """What a grouped mean takes by two CountMin sketches, of sums and of frequencies (SPEAr, section 5.2 and table 2).

    A sketch is off by a share of all that is in it. For the mean of any group to be within the error on every window,
    that share has to be small beside the smallest group: as in the paper, this is found out beforehand.
    """
    sketch = importlib.import_module("datasketches").count_min_sketch
    of_windows = [data.within(end - data.size, end) for end in data.ends[:windows].tolist()]
    hashes = sketch.suggest_num_hashes(confidence)
    buckets = [sketch.suggest_num_buckets(error * _least_share(of_windows, how)) for how in ("sum", "count")]
    seconds = []
    for tuples in of_windows:
        keys, values = tuples["key"].to_pylist(), tuples["value"].to_pylist()
        begun = perf_counter()
        sums, counts = (sketch(hashes, number) for number in buckets)
        for key, value in zip(keys, values, strict=True):
            sums.update(key, value)
            counts.update(key)
        for key in set(keys):
            sums.get_estimate(key) / counts.get_estimate(key)
        seconds.append(perf_counter() - begun)
    return seconds


def _least_share(windows: list[pa.Table], how: str) -> float:
    """Of any group, in any of the windows: of the sum over all groups, or of their tuples."""
    found = []
    for tuples in windows:
        groups = tuples.group_by("key").aggregate([("value", how)])[f"value_{how}"].to_numpy()
        found.append(groups[groups > 0].min() / groups.sum())
    return float(min(found))
