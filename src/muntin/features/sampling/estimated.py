"""What each aggregate says of a window from its sample, and how far off that may be: SPEAr's `(R̂, ε) ← g(b)`.

The sample's tuples take the place of the window's, so that most of these ask the exact aggregate itself; the rest is
how sure one can be. Running statistics of the window, which its panes know exactly, help where they can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.aggregates.custom import estimated
from muntin.arrays import Array, BoolArray, Float64Array, Int64Array, all_true, any_true
from muntin.expressions import shown
from muntin.features.sampling.policy import Approximation
from muntin.holistic.contents import Chosen, WindowContents
from muntin.holistic.frequent import most_frequent
from muntin.holistic.function import HolisticFunction, lists
from muntin.holistic.quantiles import Quantiles
from muntin.partials.custom import as_numpy
from muntin.statistics import estimators
from muntin.statistics.estimators import Interval
from muntin.statistics.frequencies import missed_share, places
from muntin.statistics.guarantees import distinct, quantile_interval, rank_error, tuples_needed
from muntin.statistics.quantiles import intervals
from muntin.statistics.running import COUNT, MEAN, VARIANCE

Statistics: TypeAlias = Mapping[str, Float64Array]
"""Those by their names, of some windows."""


@dataclass(frozen=True)
class Seen:
    """Windows, and their samples."""

    held: WindowContents
    """Their samples."""
    sampled: Int64Array
    """How many tuples are in the sample."""
    size: Int64Array
    """How many tuples are in the window."""
    complete: BoolArray
    """Whether the sample is all there is."""
    confidence: float
    allowed: float
    """The error that the user allows."""
    largest_priority: Float64Array | None
    """Of a sample of distinct values, between 0 and 1."""


@dataclass(frozen=True)
class Estimate:
    """One answer per window."""

    values: pa.Array
    error: Float64Array
    """What the user's error is compared with; infinite where nothing can be said."""
    low: pa.Array | None = None
    high: pa.Array | None = None


@dataclass(frozen=True)
class Estimator(ABC):
    """Of one aggregate: its columns, and the running statistics that it needs of them."""

    statistics: tuple[tuple[str, Bound], ...]

    distinct: ClassVar[bool] = False
    """Whether it needs a sample of distinct values, not of tuples."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The columns that the sample must have."""

    @abstractmethod
    def estimate(self, seen: Seen, statistics: Statistics) -> Estimate:
        """What it says of windows; the statistics are those that it needs, of all tuples of each."""

    @abstractmethod
    def explained(self, policy: Approximation) -> str:
        """What the error means, in words."""

    def foreseen(
        self, sampled: Int64Array, size: Int64Array, statistics: Statistics, policy: Approximation
    ) -> Float64Array:
        """What the error of each window is at least, before its sample of so many tuples is drawn."""
        return np.zeros(len(size))

    def least(self, policy: Approximation) -> int:
        """With fewer tuples than this, no window that is much larger can be answered, whatever it holds."""
        return 1

    @abstractmethod
    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        """How large a sample would do, for each of some windows, as far as can be told: for a budget found online."""


@dataclass(frozen=True)
class OfHolistic(Estimator):
    """The estimator of a holistic aggregate, which asks the aggregate itself."""

    holistic: HolisticFunction

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.holistic.inputs


@dataclass(frozen=True)
class QuantileEstimator(OfHolistic):
    """The error is that of the rank; the interval is between two values of the sample, whatever the distribution."""

    def estimate(self, seen: Seen, statistics: Statistics) -> Estimate:
        assert isinstance(self.holistic, Quantiles)
        chosen = seen.held.chosen(self.holistic.column, self.holistic.where)
        size = statistics[COUNT].astype(np.int64)
        several = self.holistic.probabilities
        confidence = 1 - (1 - seen.confidence) / len(several)  # of all of them together
        n = chosen.as_good_as
        error = reduce(np.maximum, (rank_error(n, size, each, confidence, seen.allowed) for each in several))
        if chosen.weights is not None:
            return Estimate(
                self.holistic.compute(seen.held), error, *intervals(self.holistic, seen.held, seen.confidence)
            )
        sides = [_order_interval(chosen, size, each, confidence) for each in several]
        answers = self.holistic.compute(seen.held)
        if not self.holistic.as_list:
            return Estimate(answers, error, *(pa.array(side, from_pandas=True) for side in sides[0]))
        low, high = (pa.array(np.column_stack(side).ravel(), from_pandas=True) for side in zip(*sides, strict=True))
        offsets = np.arange(len(size) + 1) * len(several)
        return Estimate(answers, error, lists(offsets, low), lists(offsets, high))

    def explained(self, policy: Approximation) -> str:
        enough = f"{self.least(policy):,} tuples that count are enough for a window of any size"
        return f"the error is that of the rank; {enough}"

    def foreseen(
        self, sampled: Int64Array, size: Int64Array, statistics: Statistics, policy: Approximation
    ) -> Float64Array:
        assert isinstance(self.holistic, Quantiles)
        counting = statistics[COUNT].astype(np.int64)
        confidence = 1 - (1 - policy.confidence) / len(self.holistic.probabilities)
        most = np.minimum(sampled, counting)
        several = self.holistic.probabilities
        return reduce(np.maximum, (rank_error(most, counting, each, confidence, policy.error) for each in several))

    def least(self, policy: Approximation) -> int:
        assert isinstance(self.holistic, Quantiles)
        several = self.holistic.probabilities
        confidence = 1 - (1 - policy.confidence) / len(several)
        return max(tuples_needed(each, policy.error, confidence) for each in several)

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        count = self.least(policy)
        share = np.maximum(statistics[COUNT], 1) / np.maximum(size, 1)  # of tuples that count at all
        return np.asarray(np.ceil(count / share), dtype=np.int64)


def _order_interval(
    chosen: Chosen, size: Int64Array, probability: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """Values of the sample that the window's quantile is between; NaN where the sample does not reach so far."""
    n = chosen.sizes
    if len(n) == 1 and n[0] < size[0]:
        low, high = quantile_interval(int(n[0]), probability, confidence)
        if low >= 0 and high < n[0]:
            both = chosen.numbers[chosen.kth(np.zeros(2, dtype=np.int64), np.array([low, high]))]
            return both[:1], both[1:]
    sizes, back = distinct(n)
    sides = np.array([quantile_interval(each, probability, confidence) for each in sizes])[back].T
    complete = n == size
    if any_true(complete):
        exact = (n - 1) * probability
        sides = np.where(complete, np.array([np.floor(exact), np.ceil(exact)], dtype=np.int64), sides)
    there = (sides >= 0) & (sides < n)
    every = np.arange(len(n))
    if all_true(there):
        both = chosen.numbers[chosen.kth(every, sides)]
        return both[0], both[1]
    found = np.full(sides.shape, np.nan)
    windows = np.broadcast_to(every, sides.shape)
    found[there] = chosen.numbers[chosen.kth(windows[there], sides[there])]
    return found[0], found[1]


@dataclass(frozen=True)
class FrequencyEstimator(OfHolistic):
    """The most frequent values. The error: by what share of the window a better one may have been missed."""

    k: int
    as_list: bool

    def estimate(self, seen: Seen, statistics: Statistics) -> Estimate:
        chosen = seen.held.chosen(self.holistic.column, self.holistic.where)
        size = statistics[COUNT]
        most = most_frequent(chosen, self.k + 1)
        error = missed_share(chosen, most, chosen.sizes >= size, self.k, self.as_list, seen.confidence)
        if not self.as_list:
            return Estimate(self.holistic.compute(seen.held), error)
        told = places(most) < self.k
        window = most.window[told]
        counts = np.rint(most.count[told] * (size / np.maximum(chosen.total, 1))[window]).astype(np.int64)
        items = chosen.column.take(pa.array(most.tuple[told]))
        pairs = pa.StructArray.from_arrays([items, pa.array(counts)], names=["item", "count"])
        return Estimate(lists(np.searchsorted(window, np.arange(len(size) + 1)), pairs), error)

    def explained(self, policy: Approximation) -> str:
        return "the error is the share of the window by which a more frequent value may have been missed"

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        return np.full(len(size), int(np.ceil(8 * np.log(2 / (1 - policy.confidence)) / policy.error**2)))


@dataclass(frozen=True)
class DistinctEstimator(OfHolistic):
    """From the k values with the smallest priorities: how close together those are tells how many there are."""

    distinct: ClassVar[bool] = True

    def estimate(self, seen: Seen, statistics: Statistics) -> Estimate:
        assert seen.largest_priority is not None
        known = seen.largest_priority >= 1  # nothing was left out
        told = estimators.distinct(np.where(known, 1.0, seen.largest_priority), seen.sampled, seen.confidence)
        count = np.where(known, seen.sampled, np.where(seen.sampled > 1, told.value, np.nan))
        error = np.where(known, 0.0, np.where(seen.sampled > 1, told.relative_error, np.inf))
        # As many as were found there are, and no more than there are tuples.
        count, low, high = (
            np.clip(np.where(known, count, side), seen.sampled, np.maximum(seen.size, seen.sampled))
            for side in (count, told.low, told.high)
        )
        return Estimate(_whole_numbers(count), error, pa.array(low, from_pandas=True), pa.array(high, from_pandas=True))

    def explained(self, policy: Approximation) -> str:
        return "the error is relative; the distinct values with the smallest random priorities are kept"

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        deviate = estimators.deviate(np.array([1 << 30]), policy.confidence)[0]
        return np.full(len(size), int(np.ceil((1.1 * deviate / policy.error) ** 2)) + 8)


def _whole_numbers(numbers: Float64Array) -> pa.Array:
    unknown = np.isnan(numbers)
    return pa.array(np.rint(np.where(unknown, 0, numbers)).astype(np.int64), mask=unknown)


@dataclass(frozen=True)
class MeanEstimator(Estimator):
    """Mean and sum. Mean and variance of the window, which its panes know, tell how far off samples of it are.

    What a sample says of its own error goes with what it says of the mean: windows whose sample is too large by chance
    would seem to have the smaller error, and be answered from it all the more often.
    """

    column: str
    where: str | None
    total: bool
    integer: bool

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,) if self.where is None else (self.column, self.where)

    def estimate(self, seen: Seen, statistics: Statistics) -> Estimate:
        chosen = seen.held.chosen(self.column, self.where)
        n, size = chosen.sizes, statistics[COUNT].astype(np.int64)
        summed = np.zeros(len(n))
        held = np.flatnonzero(n)
        with np.errstate(invalid="ignore", over="ignore"):  # of infinities: then there is no error to speak of
            if len(held):
                summed[held] = np.add.reduceat(chosen.numbers, chosen.begin[held])
            mean = summed / np.where(n > 0, n, np.nan)
            scatter = statistics[VARIANCE] * size / np.maximum(size - 1, 1)
        of = estimators.total if self.total else estimators.mean
        interval = of(mean, scatter, n, size, seen.confidence)
        with np.errstate(invalid="ignore", divide="ignore"):
            truth = statistics[MEAN] * (size if self.total else 1)
            half = interval.high - interval.value
            error = np.where(half == 0, 0.0, half / np.abs(truth))
        error = np.where((n > 0) & ~np.isnan(error), error, np.inf)
        return _estimate(interval, error, size == 0, self.total and self.integer)

    def explained(self, policy: Approximation) -> str:
        return "the error is relative, and depends on the variance of the window"

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        deviate = estimators.deviate(np.array([30]), policy.confidence)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            first = (deviate / policy.error) ** 2 * statistics[VARIANCE] / statistics[MEAN] ** 2
            share = np.maximum(statistics[COUNT], 1) / np.maximum(size, 1)
            return _finite(1.2 * first / (1 + first / np.maximum(statistics[COUNT], 1)) / share, size)


@dataclass(frozen=True)
class CountEstimator(Estimator):
    """How many tuples fulfil the condition."""

    column: str | None
    where: str | None

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(each for each in (self.column, self.where) if each is not None)

    def estimate(self, seen: Seen, statistics: Statistics) -> Estimate:
        matching = seen.held.matching(() if self.column is None else (self.column,), self.where)
        interval = estimators.count(matching, seen.sampled, seen.size, seen.confidence)
        # As with means: how far off a sample is likely to be is told from the share that the panes know.
        share = statistics[COUNT] / np.maximum(seen.size, 1)
        likely = estimators.count(seen.sampled * share, seen.sampled, seen.size, seen.confidence)
        return _estimate(interval, likely.relative_error, nothing=seen.size < 0, integer=True)

    def explained(self, policy: Approximation) -> str:
        return "the error is relative, and depends on the share of tuples that count"

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        deviate = estimators.deviate(np.array([30]), policy.confidence)[0]
        share = np.maximum(statistics[COUNT], 1) / np.maximum(size, 1)
        return _finite(1.2 * (deviate / policy.error) ** 2 * (1 - share) / share, size)


def _finite(needed: Float64Array, size: Float64Array) -> Int64Array:
    return np.asarray(np.ceil(np.minimum(np.where(np.isnan(needed), size, needed), size))).astype(np.int64)


def _estimate(interval: Interval, error: Float64Array, nothing: Array, integer: bool) -> Estimate:
    error = np.where(nothing, 0.0, error)
    told = np.where(nothing, np.nan, interval.value)
    answers = _whole_numbers(told) if integer else pa.array(told, mask=nothing | np.isnan(interval.value))
    low, high = (pa.array(np.where(nothing, np.nan, side), from_pandas=True) for side in (interval.low, interval.high))
    return Estimate(answers, error, low, high)


@dataclass(frozen=True)
class CustomEstimator(Estimator):
    """The user's own: a function of one window's sample."""

    columns: tuple[str, ...]
    where: str | None
    function: Callable[..., Any]
    result: pa.DataType

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns if self.where is None else (*self.columns, self.where)

    def estimate(self, seen: Seen, statistics: Statistics) -> Estimate:
        counts = seen.held.mask(self.columns, self.where)
        count = len(seen.sampled)
        told: list[Any] = [None] * count
        error, low, high = (np.full(count, np.nan) for _ in range(3))
        for window in np.flatnonzero(seen.sampled):  # the function is the user's: one window at a time
            within = slice(int(seen.held.begin[window]), int(seen.held.end[window]))
            matching = np.arange(within.start, within.stop)
            chosen = pa.array(matching if counts is None else matching[counts[within]])
            columns = seen.held.tuples.columns
            given = {shown(name): as_numpy(columns.column(name).take(chosen)) for name in self.columns}
            share = int(statistics[COUNT][window])
            told[window], error[window], low[window], high[window] = estimated(
                self.function, given, share, seen.confidence
            )
        if pa.types.is_floating(self.result):
            answers = pa.array([None if each is None else float(each) for each in told]).cast(self.result)
        else:
            answers = pa.array(told, self.result)
        error = np.where(np.isnan(error), np.inf, error)
        return Estimate(answers, error, pa.array(low, from_pandas=True), pa.array(high, from_pandas=True))

    def explained(self, policy: Approximation) -> str:
        return "the error is that of its own estimate"

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        raise AssertionError("a budget cannot be found for an estimate that only its user understands")
