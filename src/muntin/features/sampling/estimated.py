"""Estimators: the answer of an aggregate from a window's sample, with its error. SPEAr's `(R̂, ε) ← g(b)`.

Most estimators run the exact aggregate on the sample and add the error. Some use running statistics of the whole
window, which its panes have exactly.
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
from muntin.holistic.contents import Selection, WindowContents
from muntin.holistic.frequent import Frequencies, most_frequent
from muntin.holistic.function import HolisticFunction, lists
from muntin.holistic.quantiles import Quantiles
from muntin.partials.custom import as_numpy
from muntin.statistics import estimators
from muntin.statistics.bounded import draws_for_a_mean, half_width, stratum
from muntin.statistics.estimators import Interval
from muntin.statistics.frequencies import missed_share, places
from muntin.statistics.guarantees import distinct, quantile_interval, rank_error, tuples_needed
from muntin.statistics.quantiles import intervals
from muntin.statistics.running import COUNT, HIGH, LOW, MEAN, VARIANCE
from muntin.statistics.shares import list_error, mode_error, tuples_enough

Statistics: TypeAlias = Mapping[str, Float64Array]
"""Running statistics of windows, by name."""


@dataclass(frozen=True)
class SampledWindows:
    """Windows with their samples."""

    contents: WindowContents
    """The sampled tuples."""
    sampled: Int64Array
    """The number of tuples in the sample."""
    size: Int64Array
    """The number of tuples in the window."""
    complete: BoolArray
    """Whether the sample is the whole window."""
    confidence: float
    allowed: float
    """The error that the user allows."""
    largest_priority: Float64Array | None
    """The largest priority in a sample of distinct values, between 0 and 1."""


@dataclass(frozen=True)
class Estimate:
    """One answer per window."""

    values: pa.Array
    error: Float64Array
    """Compared with the allowed error; infinite where it is unknown."""
    low: pa.Array | None = None
    high: pa.Array | None = None


@dataclass(frozen=True)
class Estimator(ABC):
    """The estimator of one aggregate, with the running statistics that it needs."""

    statistics: tuple[tuple[str, Bound], ...]

    distinct: ClassVar[bool] = False
    """Whether it needs a sample of distinct values instead of tuples."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The columns that it needs in the sample."""

    @abstractmethod
    def estimate(self, windows: SampledWindows, statistics: Statistics) -> Estimate:
        """The estimates of windows; `statistics` are its running statistics over all tuples of each window."""

    @abstractmethod
    def explained(self, policy: Approximation) -> str:
        """A description of the error for `explain()`."""

    def foreseen(
        self, sampled: Int64Array, size: Int64Array, statistics: Statistics, policy: Approximation
    ) -> Float64Array:
        """A lower bound of each window's error, before its sample of `sampled` tuples is drawn."""
        return np.zeros(len(size))

    def least(self, policy: Approximation) -> int:
        """The smallest sample that can answer a much larger window, whatever its values."""
        return 1

    @abstractmethod
    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        """The expected sample size that each window needs, for a budget found online."""


@dataclass(frozen=True)
class OfHolistic(Estimator):
    """The estimator of a holistic aggregate, which runs the aggregate on the sample."""

    holistic: HolisticFunction

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.holistic.inputs


@dataclass(frozen=True)
class QuantileEstimator(OfHolistic):
    """The error is that of the rank; the bounds are two values of the sample, valid for any distribution."""

    def estimate(self, windows: SampledWindows, statistics: Statistics) -> Estimate:
        assert isinstance(self.holistic, Quantiles)
        selected = windows.contents.selected(self.holistic.column, self.holistic.where)
        size = statistics[COUNT].astype(np.int64)
        probabilities = self.holistic.probabilities
        confidence = 1 - (1 - windows.confidence) / len(probabilities)  # so that all bounds hold together
        n = selected.effective_sizes
        error = reduce(
            np.maximum, (rank_error(n, size, probability, confidence, windows.allowed) for probability in probabilities)
        )
        if selected.weights is not None:
            return Estimate(
                self.holistic.compute(windows.contents),
                error,
                *intervals(self.holistic, windows.contents, windows.confidence),
            )
        sides = [_order_interval(selected, size, probability, confidence) for probability in probabilities]
        answers = self.holistic.compute(windows.contents)
        if not self.holistic.as_list:
            return Estimate(answers, error, *(pa.array(side, from_pandas=True) for side in sides[0]))
        low, high = (pa.array(np.column_stack(side).ravel(), from_pandas=True) for side in zip(*sides, strict=True))
        offsets = np.arange(len(size) + 1) * len(probabilities)
        return Estimate(answers, error, lists(offsets, low), lists(offsets, high))

    def explained(self, policy: Approximation) -> str:
        enough = f"{self.least(policy):,} tuples that count are enough for a window of any size"
        return f"the error is that of the rank; {enough}"

    def foreseen(
        self, sampled: Int64Array, size: Int64Array, statistics: Statistics, policy: Approximation
    ) -> Float64Array:
        assert isinstance(self.holistic, Quantiles)
        count = statistics[COUNT].astype(np.int64)
        confidence = 1 - (1 - policy.confidence) / len(self.holistic.probabilities)
        most = np.minimum(sampled, count)
        probabilities = self.holistic.probabilities
        return reduce(
            np.maximum,
            (rank_error(most, count, probability, confidence, policy.error) for probability in probabilities),
        )

    def least(self, policy: Approximation) -> int:
        assert isinstance(self.holistic, Quantiles)
        probabilities = self.holistic.probabilities
        confidence = 1 - (1 - policy.confidence) / len(probabilities)
        return max(tuples_needed(probability, policy.error, confidence) for probability in probabilities)

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        count = self.least(policy)
        share = np.maximum(statistics[COUNT], 1) / np.maximum(size, 1)  # of tuples that count
        return np.asarray(np.ceil(count / share), dtype=np.int64)


def _order_interval(
    selected: Selection, size: Int64Array, probability: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """The values of the sample that bound the window's quantile; NaN where the sample has no bound."""
    n = selected.sizes
    if len(n) == 1 and n[0] < size[0]:
        low, high = quantile_interval(int(n[0]), probability, confidence)
        if low >= 0 and high < n[0]:
            bounds = selected.numbers[selected.kth(np.zeros(2, dtype=np.int64), np.array([low, high]))]
            return bounds[:1], bounds[1:]
    sizes, size_index = distinct(n)
    sides = np.array([quantile_interval(sample_size, probability, confidence) for sample_size in sizes])[size_index].T
    complete = n == size
    if any_true(complete):
        exact = (n - 1) * probability
        sides = np.where(complete, np.array([np.floor(exact), np.ceil(exact)], dtype=np.int64), sides)
    in_sample = (sides >= 0) & (sides < n)
    windows = np.arange(len(n))
    if all_true(in_sample):
        bounds = selected.numbers[selected.kth(windows, sides)]
        return bounds[0], bounds[1]
    values = np.full(sides.shape, np.nan)
    window_of_side = np.broadcast_to(windows, sides.shape)
    values[in_sample] = selected.numbers[selected.kth(window_of_side[in_sample], sides[in_sample])]
    return values[0], values[1]


@dataclass(frozen=True)
class FrequencyEstimator(OfHolistic):
    """The most frequent values. The error is the share by which a more frequent value may have been missed."""

    k: int
    as_list: bool

    def estimate(self, windows: SampledWindows, statistics: Statistics) -> Estimate:
        selected = windows.contents.selected(self.holistic.column, self.holistic.where)
        size = statistics[COUNT]
        most = most_frequent(selected, self.k + 1)
        if selected.weights is not None:
            error = missed_share(selected, most, selected.sizes >= size, self.k, self.as_list, windows.confidence)
        else:
            error = self._error(selected, most, size.astype(np.int64), windows)
        if not self.as_list:
            return Estimate(self.holistic.compute(windows.contents), error)
        is_reported = places(most) < self.k
        window = most.window[is_reported]
        counts = np.rint(most.count[is_reported] * (size / np.maximum(selected.total, 1))[window]).astype(np.int64)
        items = selected.column.take(pa.array(most.tuple[is_reported]))
        pairs = pa.StructArray.from_arrays([items, pa.array(counts)], names=["item", "count"])
        return Estimate(lists(np.searchsorted(window, np.arange(len(size) + 1)), pairs), error)

    def _error(self, selected: Selection, most: Frequencies, size: Int64Array, windows: SampledWindows) -> Float64Array:
        place, sampled = places(most), selected.sizes
        following = _counts_at(self.k, most, place, len(size))  # the most frequent value that is not reported
        if self.as_list:
            is_reported = place < self.k
            count, window = most.count[is_reported], most.window[is_reported]
            last = _counts_at(self.k - 1, most, place, len(size))
            error = list_error(count, window, last, following, sampled, size, windows.confidence, windows.allowed)
        else:
            first = _counts_at(0, most, place, len(size))
            error = mode_error(first, following, sampled, size, windows.confidence, windows.allowed)
        return np.where(sampled >= size, 0.0, error)

    def explained(self, policy: Approximation) -> str:
        enough = f"{tuples_enough(self.as_list, policy.error, policy.confidence):,} tuples that count are enough"
        return (
            "the error is the share of the window by which a more frequent value may have been missed; "
            f"{enough} for a window of any size, fewer if few values are frequent or the first are far ahead"
        )

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        count = tuples_enough(self.as_list, policy.error, policy.confidence)
        share = np.maximum(statistics[COUNT], 1) / np.maximum(size, 1)  # of tuples that count
        return np.asarray(np.ceil(count / share), dtype=np.int64)


def _counts_at(place: int, most: Frequencies, places: Int64Array, windows: int) -> Int64Array:
    """The count of each window's value in this place; 0 if there are fewer values."""
    counts, at = np.zeros(windows, dtype=np.int64), places == place
    counts[most.window[at]] = most.count[at]
    return counts


@dataclass(frozen=True)
class DistinctEstimator(OfHolistic):
    """Distinct values from the k smallest priorities: the denser these are, the more values there are."""

    distinct: ClassVar[bool] = True

    def estimate(self, windows: SampledWindows, statistics: Statistics) -> Estimate:
        assert windows.largest_priority is not None
        known = windows.largest_priority >= 1  # nothing was left out
        interval = estimators.distinct(
            np.where(known, 1.0, windows.largest_priority), windows.sampled, windows.confidence
        )
        count = np.where(known, windows.sampled, np.where(windows.sampled > 1, interval.value, np.nan))
        error = np.where(known, 0.0, np.where(windows.sampled > 1, interval.relative_error, np.inf))
        # At least the sampled values, at most the number of tuples.
        count, low, high = (
            np.clip(np.where(known, count, side), windows.sampled, np.maximum(windows.size, windows.sampled))
            for side in (count, interval.low, interval.high)
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
    """Mean and sum. The bounds follow from the variance and the range of the whole window, which its panes have.

    They hold for every distribution: see `statistics.bounded`. The sample's own variance would bias the choice, too: a
    sample whose mean is too large at random would seem to have the smaller relative error, so its window would be
    answered from it more often.
    """

    column: str
    where: str | None
    total: bool
    integer: bool

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,) if self.where is None else (self.column, self.where)

    def estimate(self, windows: SampledWindows, statistics: Statistics) -> Estimate:
        selected = windows.contents.selected(self.column, self.where)
        n, size = selected.sizes, statistics[COUNT].astype(np.int64)
        summed = np.zeros(len(n))
        sampled = np.flatnonzero(n)
        with np.errstate(invalid="ignore", over="ignore"):  # infinities have no error
            if len(sampled):
                summed[sampled] = np.add.reduceat(selected.numbers, selected.begin[sampled])
            mean = summed / np.where(n > 0, n, np.nan)
            numbers = stratum(
                statistics[COUNT],
                n.astype(np.float64),
                statistics[LOW],
                statistics[HIGH],
                statistics[MEAN],
                statistics[VARIANCE] * size,
            )
            half = np.where(n >= size, 0.0, half_width(*numbers, windows.confidence))
            half = half if self.total else half / np.maximum(size, 1)
            interval = Interval.around(mean * size if self.total else mean, half)
        with np.errstate(invalid="ignore", divide="ignore"):
            truth = statistics[MEAN] * (size if self.total else 1)
            error = np.where(half == 0, 0.0, half / np.abs(truth))
        error = np.where((n > 0) & ~np.isnan(error), error, np.inf)
        return _estimate(interval, error, size == 0, self.total and self.integer)

    def explained(self, policy: Approximation) -> str:
        return "the error is relative, and depends on the variance and the range of the window"

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        count, mean = np.maximum(statistics[COUNT], 1), statistics[MEAN]
        draws = draws_for_a_mean(
            count,
            statistics[LOW],
            statistics[HIGH],
            mean,
            statistics[VARIANCE] * count,
            policy.error,
            1 - policy.confidence,
        )
        return finite(np.minimum(1.2 * draws, count) / (count / np.maximum(size, 1)), size)


@dataclass(frozen=True)
class CountEstimator(Estimator):
    """The number of tuples that meet a condition."""

    column: str | None
    where: str | None

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(column for column in (self.column, self.where) if column is not None)

    def estimate(self, windows: SampledWindows, statistics: Statistics) -> Estimate:
        matching = windows.contents.matching(() if self.column is None else (self.column,), self.where)
        interval = estimators.count(matching, windows.sampled, windows.size, windows.confidence)
        # As with means, the error comes from the share in the whole window, which its panes have.
        share = statistics[COUNT] / np.maximum(windows.size, 1)
        likely = estimators.count(windows.sampled * share, windows.sampled, windows.size, windows.confidence)
        return _estimate(interval, likely.relative_error, nothing=windows.size < 0, integer=True)

    def explained(self, policy: Approximation) -> str:
        return "the error is relative, and depends on the share of tuples that count"

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        deviate = estimators.deviate(np.array([30]), policy.confidence)[0]
        share = np.maximum(statistics[COUNT], 1) / np.maximum(size, 1)
        return finite(1.2 * (deviate / policy.error) ** 2 * (1 - share) / share, size)


def finite(needed: Float64Array, size: Float64Array) -> Int64Array:
    """A whole number of tuples, at most the window's."""
    return np.asarray(np.ceil(np.minimum(np.where(np.isnan(needed), size, needed), size))).astype(np.int64)


def _estimate(interval: Interval, error: Float64Array, nothing: Array, integer: bool) -> Estimate:
    error = np.where(nothing, 0.0, error)
    value = np.where(nothing, np.nan, interval.value)
    answers = _whole_numbers(value) if integer else pa.array(value, mask=nothing | np.isnan(interval.value))
    low, high = (pa.array(np.where(nothing, np.nan, side), from_pandas=True) for side in (interval.low, interval.high))
    return Estimate(answers, error, low, high)


@dataclass(frozen=True)
class CustomEstimator(Estimator):
    """A user-defined estimator: a function of one window's sample."""

    columns: tuple[str, ...]
    where: str | None
    function: Callable[..., Any]
    result: pa.DataType

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns if self.where is None else (*self.columns, self.where)

    def estimate(self, windows: SampledWindows, statistics: Statistics) -> Estimate:
        counts = windows.contents.mask(self.columns, self.where)
        count = len(windows.sampled)
        values: list[Any] = [None] * count
        error, low, high = (np.full(count, np.nan) for _ in range(3))
        for window in np.flatnonzero(windows.sampled):  # a user-defined function gets one window at a time
            within = slice(int(windows.contents.begin[window]), int(windows.contents.end[window]))
            matching = np.arange(within.start, within.stop)
            rows = pa.array(matching if counts is None else matching[counts[within]])
            columns = windows.contents.tuples.columns
            given = {shown(name): as_numpy(columns.column(name).take(rows)) for name in self.columns}
            share = int(statistics[COUNT][window])
            values[window], error[window], low[window], high[window] = estimated(
                self.function, given, share, windows.confidence
            )
        if pa.types.is_floating(self.result):
            answers = pa.array([None if value is None else float(value) for value in values]).cast(self.result)
        else:
            answers = pa.array(values, self.result)
        error = np.where(error >= 0, error, np.inf)  # no error is negative: what is, is unknown
        return Estimate(answers, error, pa.array(low, from_pandas=True), pa.array(high, from_pandas=True))

    def explained(self, policy: Approximation) -> str:
        return "the error is that of its own estimate"

    def needed(self, policy: Approximation, size: Float64Array, statistics: Statistics) -> Int64Array:
        raise AssertionError("a budget cannot be found for an estimate that only its user understands")
