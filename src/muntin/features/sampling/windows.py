"""SPEAr's algorithm 2: when a window closes, it is answered from its sample if that is good enough, else exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Float64Array, Int64Array, all_true, any_true, count_true, run_numbers, run_starts
from muntin.engine.answers import Answered, AnswerLink, ClosedWindows
from muntin.engine.contents import OfContents, ShardTuples, holistic
from muntin.engine.estimates import EXACT, INCREMENTAL, Estimates, picked
from muntin.engine.hidden import SIZE
from muntin.engine.operators.operator import Answers, LazyAggregates, TupleOperator, WindowOperator
from muntin.engine.operators.time import TimeOperator
from muntin.engine.plan import Plan
from muntin.features.sampling import pause
from muntin.features.sampling.combined import combined
from muntin.features.sampling.error_metric import measured
from muntin.features.sampling.estimated import SampledWindows
from muntin.features.sampling.judged import Judged, from_samples
from muntin.features.sampling.plan import SamplingPlan
from muntin.features.sampling.policy import Approximation
from muntin.features.sampling.samples import EVERYTHING, WindowSamples
from muntin.features.sampling.store import SampleStore
from muntin.holistic.contents import WindowContents
from muntin.partials import values
from muntin.partials.values import of_type
from muntin.statistics.congress import congress

FEW = 64
"""For fewer windows and keys, drawing the samples costs no more than checking if they can be good enough."""


@dataclass
class AnswerCounts:
    """Counts of windows and keys by how they were answered, in one batch."""

    exact: int = 0
    approximate: int = 0
    helped: int = 0
    """Those with a good enough sample, which may be the whole window."""
    failed: int = 0
    """Those with a sample that was not good enough."""
    feasible: int = 0
    """Those not helped that, by their sizes, a sample within the budget might answer."""
    looked_at: pause.WindowSizes | None = None
    """The contents of windows, if their sizes were checked."""
    read: int = 0
    """Those for which all tuples were read."""
    sample_bytes: int = 0
    """The bytes of the samples from which windows were answered."""

    @property
    def closed(self) -> bool:
        """Whether any windows closed."""
        return self.exact + self.approximate > 0


@dataclass(frozen=True)
class _Candidates:
    """Windows and keys that may be answered from samples, before any sample is drawn."""

    answers: Answers
    known: Mapping[str, pa.Array]
    """The decomposable aggregates, running statistics among them."""
    size: Int64Array
    window: Int64Array
    """The number of each one's window: a window over time has all keys of the shard, as groups."""
    begin: Int64Array
    """The range of its tuples' positions."""
    end: Int64Array
    share: Int64Array
    """The most tuples in its sample, so that all groups of its window are within the budget."""
    most: tuple[Int64Array, ...]
    """The same for each of its samples, limited by the tuples that were dropped."""
    is_sampled: BoolArray
    """Whether it has a sample: not after a pause."""

    def take(self, positions: Int64Array) -> _Candidates:
        """The candidates at these positions, which include all groups of their windows."""
        _, window = np.unique(self.window[positions], return_inverse=True)
        begin, end, share = (array[positions] for array in (self.begin, self.end, self.share))
        most = tuple(sizes[positions] for sizes in self.most)
        known = {name: column.take(pa.array(positions)) for name, column in self.known.items()}
        return _Candidates(
            self.answers.take(positions),
            known,
            self.size[positions],
            window,
            begin,
            end,
            share,
            most,
            self.is_sampled[positions],
        )


class SampledAnswers:
    """The link that answers windows from good enough samples, and all others by the inner link."""

    def __init__(
        self, plan: Plan, sampling: SamplingPlan, samples: SampleStore, inner: AnswerLink, tuples: ShardTuples
    ) -> None:
        self._plan = plan
        self._sampling = sampling
        self._policy = sampling.policy
        self._samples = samples
        self._inner = inner
        self._tuples = tuples
        self.counted = AnswerCounts()

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        values, estimates = self._values(windows.operator, windows.answers, windows.values, windows.lazy)
        yield Answered(windows, values, estimates)

    def _values(
        self, operator: WindowOperator, answers: Answers, known: Mapping[str, pa.Array], lazy: LazyAggregates
    ) -> tuple[dict[str, pa.Array], Estimates]:
        """All aggregates of each window, with their estimates; `known` are the decomposable ones.

        Running statistics are lazy: during a pause they are not computed.
        """
        if self._sampling.estimators and (self._sampling.infeasible or self._is_unsampled(answers)):
            values, estimates = self._exact(
                operator, answers, known if holistic(operator) else {**known, **lazy.lowered()}
            )
            contents = _contents(answers, estimates.size)
            if not self._sampling.infeasible and self._samples.pause.looks_at(contents):
                self._look_at(self._candidates(operator, answers, {**known, **lazy.lowered()}), contents)
            return values, estimates
        known = {**known, **lazy.lowered()}
        if not self._sampling.estimators:
            return known, Estimates.all_exact(np.asarray(known[SIZE]), INCREMENTAL)
        candidates = self._candidates(operator, answers, known)
        answered = self._answered(operator, candidates)
        if not self.counted.helped:
            self._look_at(candidates, _contents(answers, candidates.size))
        return answered

    def _look_at(self, candidates: _Candidates, contents: pause.WindowSizes) -> None:
        """Count the windows that a sample within the budget might answer, by their sizes."""
        self.counted.looked_at = contents
        self.counted.feasible += count_true(self._feasible(candidates, [candidates.share] * len(candidates.most)))

    def _is_unsampled(self, answers: Answers) -> bool:
        """Whether all of these windows contain unsampled tuples of a pause."""
        unsampled_until = self._samples.pause.blind
        return unsampled_until is not None and int(answers.start.max()) <= unsampled_until

    def _answered(self, operator: WindowOperator, candidates: _Candidates) -> tuple[dict[str, pa.Array], Estimates]:
        if not any_true(candidates.is_sampled):
            return self._exact(operator, candidates.answers, candidates.known)
        if len(candidates.size) < FEW:
            return self._sampled(operator, candidates)
        feasible = self._feasible(candidates, candidates.most)
        self.counted.failed += count_true(candidates.is_sampled & ~feasible)
        if all_true(feasible):
            return self._sampled(operator, candidates)
        if not any_true(feasible):
            return self._exact(operator, candidates.answers, candidates.known)
        feasible_rows, other_rows = np.flatnonzero(feasible), np.flatnonzero(~feasible)
        others = candidates.take(other_rows)
        sampled, estimates = self._sampled(operator, candidates.take(feasible_rows))
        exact, _ = self._exact(operator, others.answers, others.known)
        restored = pa.array(np.argsort(np.concatenate([feasible_rows, other_rows])))
        values = {name: pa.concat_arrays([sampled[name], exact[name]]).take(restored) for name in sampled}
        return values, estimates.among(feasible_rows, candidates.size)

    def _exact(
        self, operator: WindowOperator, answers: Answers, known: Mapping[str, pa.Array]
    ) -> tuple[dict[str, pa.Array], Estimates]:
        """The answers without approximation, and the sizes of their windows."""
        self.counted.exact += len(answers.key)
        self.counted.read += len(answers.key)
        counting = {} if SIZE in known else {SIZE: _sizes}
        values = self._by_inner(operator, answers, known, counting)
        return values, Estimates.all_exact(np.asarray(values[SIZE]), EXACT)

    def _by_inner(
        self,
        operator: WindowOperator,
        answers: Answers,
        known: Mapping[str, pa.Array],
        also: Mapping[str, OfContents] | None = None,
    ) -> dict[str, pa.Array]:
        (answered,) = self._inner.answer(ClosedWindows(operator, answers, known, LazyAggregates(), also or {}))
        return dict(answered.values)

    def _candidates(self, operator: WindowOperator, answers: Answers, known: Mapping[str, pa.Array]) -> _Candidates:
        size = np.asarray(known[SIZE])
        begin, end = answers.start, answers.end
        if answers.from_end is not None:
            assert isinstance(operator, TupleOperator)
            finalized = self._samples.finalized_counts(operator, answers.key)
            begin, end = finalized - answers.from_end[0], finalized - answers.from_end[1]
        window, share = np.arange(len(size)), min(self._samples.budget // len(self._sampling.specs), EVERYTHING)
        most = np.full(len(size), share)
        if isinstance(operator, TimeOperator) and self._plan.keys:
            window = _numbered(answers)
            expected = self._samples.known_groups
            if expected is None:
                most = congress(size, window, share)
            else:  # divided from the start; not enough if unexpected groups arrive
                most = np.where(np.bincount(window)[window] <= expected, share // max(expected, 1), 0)
        specs = range(len(self._sampling.specs))
        limits = [self._samples.limits(operator, spec, answers.key, begin) for spec in specs]
        unsampled_until = self._samples.pause.blind
        is_sampled = np.ones(len(size), dtype=bool)
        if self._plan.needs_order:
            is_sampled = reduce(np.maximum, limits) > 0
        elif unsampled_until is not None:
            is_sampled = begin > unsampled_until
            limits = [np.where(is_sampled, limit, 0) for limit in limits]
        limited = tuple(np.minimum(most, limit) for limit in limits)
        return _Candidates(answers, known, size, window, begin, end, most, limited, is_sampled)

    def _feasible(self, candidates: _Candidates, most: Sequence[Int64Array]) -> BoolArray:
        """Which windows samples of at most `most` tuples might answer, by the sizes of the windows."""
        least = np.zeros(1)
        for name, estimator in self._sampling.estimators.items():
            sampled = np.minimum(candidates.size, most[self._sampling.spec_of(estimator)])
            error = np.zeros(len(sampled))  # nothing is known of a metric beforehand
            if name not in self._sampling.metrics:
                known = self._statistics(name, candidates.known)
                error = estimator.foreseen(sampled, candidates.size, known, self._policy)
            error = np.where(sampled > 0, error, np.inf)
            least = np.maximum(least, self._combined(error, candidates))
        return np.asarray(least[candidates.window] <= self._policy.error)

    def _sampled(self, operator: WindowOperator, candidates: _Candidates) -> tuple[dict[str, pa.Array], Estimates]:
        """Good enough estimates, and exact answers for all other windows."""
        judged = self._judged(operator, candidates)
        exact = np.flatnonzero(~judged.good)
        computed: Mapping[str, pa.Array] = {}
        if len(exact) and any(bound.holistic is not None for bound in operator.bounds.values()):
            computed = self._by_inner(operator, candidates.answers.take(exact), {})
        values = {**candidates.known}
        for name, estimate in judged.estimates.items():
            bound = operator.bounds[name]
            estimates = of_type(estimate.values, bound.result)
            if bound.holistic is None:  # exact from panes: used where the sample is complete
                values[name] = picked(estimates, candidates.known[name], judged.approximate)
            else:
                values[name] = _with_others(estimates, computed.get(name), judged.good)
        approximate = count_true(judged.approximate)
        self.counted.helped += len(candidates.size) - len(exact)
        self.counted.failed += count_true(candidates.is_sampled[exact])
        self.counted.read += len(exact)
        self.counted.approximate += approximate
        self.counted.exact += len(candidates.size) - approximate
        return values, from_samples(candidates.size, judged, self._policy.confidence)

    def _judged(self, operator: WindowOperator, candidates: _Candidates) -> Judged:
        """Draw the sample of every window, run the estimators, and compare the errors with the allowed one."""
        size = candidates.size
        sampled_windows: list[SampledWindows] = []
        for number, most in enumerate(candidates.most):
            key, begin, end = candidates.answers.key, candidates.begin, candidates.end
            drawn_samples = self._samples.drawn(operator, number, key, begin, end, most)
            sampled_windows.append(_sampled_windows(drawn_samples, most, size, self._policy))
            self.counted.sample_bytes += sampled_windows[-1].contents.tuples.nbytes
            self.counted.sample_bytes += sum(samples.tuples()[0].nbytes for samples in drawn_samples[1:])
        estimates, errors = {}, []
        for name, estimator in self._sampling.estimators.items():
            windows_of_spec = sampled_windows[self._sampling.spec_of(estimator)]
            estimate = estimator.estimate(windows_of_spec, self._statistics(name, candidates.known))
            estimates[name], metric = estimate, self._sampling.metrics.get(name)
            if metric is not None:
                drawn, complete = windows_of_spec.sampled, windows_of_spec.complete
                error = measured(metric, name, estimate, drawn, size, complete, self._policy.confidence)
                estimates[name] = replace(estimate, error=error)
            errors.append(self._combined(estimates[name].error, candidates))
        error = reduce(np.maximum, errors, np.zeros(1))[candidates.window]
        good = error <= self._policy.error
        complete = reduce(np.logical_and, (windows.complete for windows in sampled_windows), good)
        sampled = np.minimum(sum(windows.sampled for windows in sampled_windows), size)
        return Judged(estimates, error, good, sampled, good & ~complete)

    def _statistics(self, name: str, known: Mapping[str, pa.Array]) -> dict[str, Float64Array]:
        """The running statistics of an aggregate, which the panes of each window have."""
        hidden = self._sampling.hidden.items()
        columns = {statistic: known[key] for key, (output, statistic) in hidden if output == name}
        return {
            statistic: values.numbers(column.fill_null(0) if column.null_count else column)
            for statistic, column in columns.items()
        }

    def _combined(self, error: Float64Array, candidates: _Candidates) -> Float64Array:
        """The combined error of each window's groups."""
        return combined(error, candidates.window, candidates.size, self._policy.combine)


def _sizes(contents: WindowContents) -> pa.Array:
    return pa.array(contents.end - contents.begin)


def _contents(answers: Answers, size: Int64Array) -> pause.WindowSizes:
    windows = len(run_starts(answers.end, answers.start))
    return pause.WindowSizes(int(size.sum()) / windows, len(size) / windows)


def _numbered(answers: Answers) -> Int64Array:
    """The number of the window over time of each answer, from 0."""
    order = np.lexsort((answers.window, answers.model))
    starts = run_starts(answers.model[order], answers.window[order])
    window = np.empty(len(order), dtype=np.int64)
    window[order] = run_numbers(starts, len(order))
    return window


def _sampled_windows(
    drawn: Sequence[WindowSamples], most: Int64Array, size: Int64Array, policy: Approximation
) -> SampledWindows:
    """The windows with the samples of all turns. Only distinct values, of which the tuples do not matter, have two."""
    tuples, begin, end = drawn[0].tuples()
    contents = WindowContents(tuples, begin, end, one_per_key=True)
    sampled = np.sum([samples.sizes for samples in drawn], axis=0)
    complete, largest = sampled >= size, None
    if drawn[0].samples.distinct:
        complete = sampled < most
        priority = np.max([samples.largest_priority() for samples in drawn], axis=0)
        largest = np.where(complete, 1.0, np.minimum((priority.astype(np.float64) + 1) / 2.0**64, 1 - 1e-16))
    return SampledWindows(contents, sampled, size, complete, policy.confidence, policy.error, largest)


def _with_others(estimates: pa.Array, exact: pa.Array | None, good: BoolArray) -> pa.Array:
    """The good estimates, and the `exact` answers of all other windows."""
    if exact is None:
        return estimates
    positions = np.arange(len(good))
    positions[~good] = len(good) + np.arange(len(exact))
    return pa.concat_arrays([estimates, exact]).take(pa.array(positions))
