"""Answers from samples without an engine: their errors, and alternatives to them."""

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
    """A budget and an error at a confidence of 95 %, as in SPEAr."""
    return Approximation.of(budget, error, 0.95, groups, "l1", incremental, seed)


def replay_in_batches(data: DataSet, plan: Plan, rows: int) -> float:
    """The total seconds of a query whose windows close as tuples arrive (figure 9)."""
    core = Core(plan)
    begun = perf_counter()
    for begin in range(0, len(data.tuples), rows):
        core.arrive(data.tuples.slice(begin, rows))
    seconds = perf_counter() - begun
    core.forget()
    return seconds


def accelerated(result: pa.Table, budget: int) -> bool:
    """Whether a sample answered the window. If all tuples fit the budget, the sample is exact."""
    quality = result["quality"].combine_chunks()
    sizes = np.asarray(quality.field("size"))
    return bool(np.any(np.asarray(quality.field("mode")) == "approximate") or sizes.sum() <= budget)


def rank_error(ordered: Array, answer: float, probability: float) -> float:
    """The distance between the rank of an answer and the requested one. `ordered` are the values of the window.

    Ranks between two values are interpolated as quantiles are. A value that occurs several times has all its ranks. So
    the error is e if the answer is one of the exact quantiles from `probability - e` to `probability + e`.
    """
    if len(ordered) < 2:
        return 0.0  # a single value is every quantile
    first, after = (int(np.searchsorted(ordered, answer, side)) for side in ("left", "right"))
    if first == after:  # between two values, or beyond all of them
        below, above = ordered[max(first - 1, 0)], ordered[min(first, len(ordered) - 1)]
        rank = first - 1 + (answer - below) / (above - below) if above > below else float(first)
        low = high = float(np.clip(rank, 0, len(ordered) - 1))
    else:
        low, high = float(first), float(after - 1)
    last_rank = len(ordered) - 1
    return float(max(low / last_rank - probability, probability - high / last_rank, 0.0))


def relative_error(values: Array, answer: float) -> float:
    """The distance between an answer and the mean of the values, relative to the mean."""
    exact = float(np.mean(values))
    return 0.0 if answer == exact else abs(answer - exact) / abs(exact) if exact else np.inf


def true_error(data: DataSet, end: int, result: pa.Table, aggregate: A.Aggregate) -> float:
    """The true error of the window that ends at `end`: the mean over its groups, as a query's `error` limits it."""
    answers = dict(zip(_codes(result), result[ANSWER].to_pylist(), strict=True))
    errors = []
    for key, values in _groups(data.within(end - data.size, end)):
        answer = answers[key]
        errors.append(rank_error(values, answer, 0.5) if aggregate is MEDIAN else relative_error(values, answer))
    return float(np.mean(errors))


def _codes(table: pa.Table) -> list[Any]:
    return table["key"].to_pylist() if "key" in table.column_names else [None] * len(table)


def _groups(tuples: pa.Table) -> Iterator[tuple[Any, Array]]:
    """The sorted values of each group."""
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
    """The true errors of the windows, and whether each was accelerated."""
    errors = [true_error(data, end, result, aggregate) for end, result in ran.results.items()]
    return np.array(errors), np.array([accelerated(result, budget) for result in ran.results.values()])


def scan_seconds(data: DataSet) -> list[float]:
    """Seconds of each window's grouped mean by a scan of the tuples in its chunks, in one thread like Muntin."""
    core, counted_ends, seconds = Core(plan_of(data, MEDIAN)), set(data.ends.tolist()), []
    for end, tuples in slides(data):
        core.arrive(tuples)
        if end in counted_ends:
            begun = perf_counter()
            core.scan(end - data.size, end)
            seconds.append(perf_counter() - begun)
        core.close(end)
    core.forget()
    return seconds


def raw_scan_seconds(data: DataSet) -> list[float]:
    """Seconds of the same scan over one table with the tuples. No engine has that: it is a lower bound."""
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
    """Seconds of a grouped mean by two CountMin sketches, of sums and of counts (SPEAr, section 5.2 and table 2).

    The error of a sketch is a share of its total. To keep the mean of every group within the error, that share must be
    small compared with the smallest group. As in SPEAr, the smallest group is determined in advance.
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
    """The smallest share of any group in any window, of the sum or of the count over all groups."""
    shares = []
    for tuples in windows:
        values = tuples.group_by("key").aggregate([("value", how)])[f"value_{how}"].to_numpy()
        shares.append(values[values > 0].min() / values.sum())
    return float(min(shares))
