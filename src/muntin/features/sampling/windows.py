"""SPEAr's algorithm 2: at the watermark a window is answered from its sample if that is good enough, else exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
"""For fewer windows of keys than this, to find out beforehand whether a sample can do costs as much as to draw it."""


@dataclass
class AnswerCounts:
    """How many windows of keys were answered in which way, in one batch."""

    exact: int = 0
    approximate: int = 0
    helped: int = 0
    """Those for which the sample was good enough, all there is among them."""
    failed: int = 0
    """Those for which there was one that was not."""
    feasible: int = 0
    """Those that were not helped, and whose sizes do not tell that no sample within the budget could."""
    looked_at: pause.WindowSizes | None = None
    """What windows hold, if their sizes were looked at."""
    read: int = 0
    """Those for which all tuples had to be read."""
    sample_bytes: int = 0
    """What the samples took that windows were answered from."""

    @property
    def closed(self) -> bool:
        """Whether there were any."""
        return self.exact + self.approximate > 0


@dataclass(frozen=True)
class _Candidates:
    """Windows of keys, with what is known of them before anything is drawn."""

    answers: Answers
    known: Mapping[str, pa.Array]
    """The decomposable aggregates, running statistics among them."""
    size: Int64Array
    window: Int64Array
    """Which window each belongs to: one over time has all keys of the shard, as groups."""
    begin: Int64Array
    """The positions of its tuples."""
    end: Int64Array
    share: Int64Array
    """How many tuples a sample of it may have, so that all groups of its window are within the budget."""
    most: tuple[Int64Array, ...]
    """How many each of its samples can have at that: no more than are left of what was given up."""
    is_sampled: BoolArray
    """Whether anything is sampled of it: in a pause, nothing is."""

    @property
    def groups(self) -> Int64Array:
        return np.bincount(self.window)

    def take(self, chosen: Int64Array) -> _Candidates:
        """Some of them, with all groups of their windows."""
        _, window = np.unique(self.window[chosen], return_inverse=True)
        begin, end, share = (each[chosen] for each in (self.begin, self.end, self.share))
        most = tuple(each[chosen] for each in self.most)
        known = {name: column.take(pa.array(chosen)) for name, column in self.known.items()}
        return _Candidates(
            self.answers.take(chosen),
            known,
            self.size[chosen],
            window,
            begin,
            end,
            share,
            most,
            self.is_sampled[chosen],
        )


class SampledAnswers:
    """The link that answers windows from their samples where those are good enough, and by the inner link elsewhere."""

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
        """All aggregates of each window, and how good they are; `known` are the decomposable ones.

        Running statistics come `later`: where a pause says beforehand that no sample will do, nobody asks for them.
        """
        if self._sampling.estimators and (self._sampling.infeasible or self._is_unsampled(answers)):
            found, estimates = self._exact(
                operator, answers, known if holistic(operator) else {**known, **lazy.lowered()}
            )
            contents = _contents(answers, estimates.size)
            if not self._sampling.infeasible and self._samples.pause.looks_at(contents):
                self._look_at(self._candidates(operator, answers, {**known, **lazy.lowered()}), contents)
            return found, estimates
        known = {**known, **lazy.lowered()}
        if not self._sampling.estimators:
            return known, Estimates.all_exact(np.asarray(known[SIZE]), INCREMENTAL)
        asked = self._candidates(operator, answers, known)
        answered = self._answered(operator, asked)
        if not self.counted.helped:
            self._look_at(asked, _contents(answers, asked.size))
        return answered

    def _look_at(self, asked: _Candidates, contents: pause.WindowSizes) -> None:
        """Whether sizes tell that no sample within the budget could do."""
        self.counted.looked_at = contents
        self.counted.feasible += count_true(self._feasible(asked, [asked.share] * len(asked.most)))

    def _is_unsampled(self, answers: Answers) -> bool:
        """Whether all of these windows are from a pause, in which nothing is sampled."""
        blind = self._samples.pause.blind
        return blind is not None and int(answers.start.max()) <= blind

    def _answered(self, operator: WindowOperator, asked: _Candidates) -> tuple[dict[str, pa.Array], Estimates]:
        if not any_true(asked.is_sampled):
            return self._exact(operator, asked.answers, asked.known)
        if len(asked.size) < FEW:
            return self._sampled(operator, asked)
        feasible = self._feasible(asked, asked.most)
        self.counted.failed += count_true(asked.is_sampled & ~feasible)
        if all_true(feasible):
            return self._sampled(operator, asked)
        if not any_true(feasible):
            return self._exact(operator, asked.answers, asked.known)
        first, second = np.flatnonzero(feasible), np.flatnonzero(~feasible)
        other = asked.take(second)
        sampled, estimates = self._sampled(operator, asked.take(first))
        exact, _ = self._exact(operator, other.answers, other.known)
        back = pa.array(np.argsort(np.concatenate([first, second])))
        found = {name: pa.concat_arrays([sampled[name], exact[name]]).take(back) for name in sampled}
        return found, estimates.among(first, asked.size)

    def _exact(
        self, operator: WindowOperator, answers: Answers, known: Mapping[str, pa.Array]
    ) -> tuple[dict[str, pa.Array], Estimates]:
        """The answers that the query gives without approximation, and how many tuples each is of."""
        self.counted.exact += len(answers.key)
        self.counted.read += len(answers.key)
        counting = {} if SIZE in known else {SIZE: _sizes}
        found = self._by_inner(operator, answers, known, counting)
        return found, Estimates.all_exact(np.asarray(found[SIZE]), EXACT)

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
            behind = self._samples.finalized_counts(operator, answers.key)
            begin, end = behind - answers.from_end[0], behind - answers.from_end[1]
        window, share = np.arange(len(size)), min(self._samples.budget // len(self._sampling.specs), EVERYTHING)
        most = np.full(len(size), share)
        if isinstance(operator, TimeOperator) and self._plan.keys:
            window = _numbered(answers)
            expected = self._samples.known_groups
            if expected is None:
                most = congress(size, window, share)
            else:  # divided from the start; where other groups have come, it does not go round
                most = np.where(np.bincount(window)[window] <= expected, share // max(expected, 1), 0)
        samples = [self._samples.of(operator, spec) for spec in range(len(self._sampling.specs))]
        limits = [each.cuts.limits(answers.key, begin) for each in samples]
        blind = self._samples.pause.blind
        is_sampled = np.ones(len(size), dtype=bool)
        if self._plan.needs_order:
            is_sampled = reduce(np.maximum, limits) > 0
        elif blind is not None:
            is_sampled = begin > blind
            limits = [np.where(is_sampled, each, 0) for each in limits]
        within = tuple(np.minimum(most, limit) for limit in limits)
        return _Candidates(answers, known, size, window, begin, end, most, within, is_sampled)

    def _feasible(self, asked: _Candidates, most: Sequence[Int64Array]) -> BoolArray:
        """Which windows may be answered from samples of at most so many tuples, as far as their sizes tell."""
        least = np.zeros(1)
        for name, estimator in self._sampling.estimators.items():
            sampled = np.minimum(asked.size, most[self._sampling.spec_of(estimator)])
            error = estimator.foreseen(sampled, asked.size, self._statistics(name, asked.known), self._policy)
            error = np.where(sampled > 0, error, np.inf)
            least = np.maximum(least, self._combined(error, asked))
        return np.asarray(least[asked.window] <= self._policy.error)

    def _sampled(self, operator: WindowOperator, asked: _Candidates) -> tuple[dict[str, pa.Array], Estimates]:
        """Estimates where they are good enough, and exact answers for the rest."""
        judged = self._judged(operator, asked)
        exact = np.flatnonzero(~judged.good)
        computed: Mapping[str, pa.Array] = {}
        if len(exact) and any(bound.holistic is not None for bound in operator.bounds.values()):
            computed = self._by_inner(operator, asked.answers.take(exact), {})
        found = {**asked.known}
        for name, estimate in judged.estimates.items():
            bound = operator.bounds[name]
            estimates = of_type(estimate.values, bound.result)
            if bound.holistic is None:  # what panes know exactly anyway is told exactly where the sample has no error
                found[name] = picked(estimates, asked.known[name], judged.approximate)
            else:
                found[name] = _with_others(estimates, computed.get(name), judged.good)
        approximate = count_true(judged.approximate)
        self.counted.helped += len(asked.size) - len(exact)
        self.counted.failed += count_true(asked.is_sampled[exact])
        self.counted.read += len(exact)
        self.counted.approximate += approximate
        self.counted.exact += len(asked.size) - approximate
        return found, from_samples(asked.size, judged, self._policy.confidence)

    def _judged(self, operator: WindowOperator, asked: _Candidates) -> Judged:
        """Draw the sample of every window, ask the estimators, and compare the errors with what is allowed."""
        size = asked.size
        seen: list[SampledWindows] = []
        for number, most in enumerate(asked.most):
            samples = self._samples.of(operator, number)
            drawn = samples.windows(asked.answers.key, asked.begin, asked.end, most)
            seen.append(_seen(drawn, size, self._policy))
            self.counted.sample_bytes += seen[-1].contents.tuples.nbytes
        estimates, errors = {}, []
        for name, estimator in self._sampling.estimators.items():
            of = seen[self._sampling.spec_of(estimator)]
            estimates[name] = estimator.estimate(of, self._statistics(name, asked.known))
            errors.append(self._combined(estimates[name].error, asked))
        error = reduce(np.maximum, errors, np.zeros(1))[asked.window]
        good = error <= self._policy.error
        complete = reduce(np.logical_and, (each.complete for each in seen), good)
        sampled = np.minimum(sum(each.sampled for each in seen), size)
        return Judged(estimates, error, good, sampled, good & ~complete)

    def _statistics(self, name: str, known: Mapping[str, pa.Array]) -> dict[str, Float64Array]:
        """The running statistics of an aggregate, which the panes of each window know."""
        hidden = self._sampling.hidden.items()
        own = {statistic: known[at] for at, (output, statistic) in hidden if output == name}
        return {each: values.numbers(of.fill_null(0) if of.null_count else of) for each, of in own.items()}

    def _combined(self, error: Float64Array, asked: _Candidates) -> Float64Array:
        """One error for the groups of each window: their mean (the paper's L1), or the largest."""
        groups = asked.groups
        if self._policy.combine == "max":
            largest = np.zeros(len(groups))
            np.maximum.at(largest, asked.window, error)
            return largest
        return np.asarray(np.bincount(asked.window, weights=error) / groups)


def _sizes(held: WindowContents) -> pa.Array:
    return pa.array(held.end - held.begin)


def _contents(answers: Answers, size: Int64Array) -> pause.WindowSizes:
    windows = len(run_starts(answers.end, answers.start))
    return pause.WindowSizes(int(size.sum()) / windows, len(size) / windows)


def _numbered(answers: Answers) -> Int64Array:
    """Which window over time each answer belongs to, from 0."""
    order = np.lexsort((answers.window, answers.model))
    starts = run_starts(answers.model[order], answers.window[order])
    window = np.empty(len(order), dtype=np.int64)
    window[order] = run_numbers(starts, len(order))
    return window


def _seen(drawn: WindowSamples, size: Int64Array, policy: Approximation) -> SampledWindows:
    tuples, begin, end = drawn.tuples()
    held = WindowContents(tuples, begin, end, one_per_key=True)
    complete, largest = drawn.sizes >= size, None
    if drawn.samples.distinct:
        complete = drawn.sizes < drawn.most
        share = (drawn.largest_priority().astype(np.float64) + 1) / 2.0**64
        largest = np.where(complete, 1.0, np.minimum(share, 1 - 1e-16))
    return SampledWindows(held, drawn.sizes, size, complete, policy.confidence, policy.error, largest)


def _with_others(estimates: pa.Array, exact: pa.Array | None, good: BoolArray) -> pa.Array:
    """The estimates where they are good, and the exact answers, which are of the other windows only."""
    if exact is None:
        return estimates
    place = np.arange(len(good))
    place[~good] = len(good) + np.arange(len(exact))
    return pa.concat_arrays([estimates, exact]).take(pa.array(place))
