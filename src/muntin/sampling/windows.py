"""SPEAr's algorithm 2: at the watermark a window is answered from its sample if that is good enough, else exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.aggregates import values
from muntin.arrays import BoolArray, Float64Array, Int64Array, run_starts
from muntin.families.family import Answers, Family, TupleFamily
from muntin.families.time import TimeFamily
from muntin.sampling.allocation import congress
from muntin.sampling.estimated import Seen
from muntin.sampling.plan import HIDDEN, SIZE
from muntin.sampling.policy import Approximation
from muntin.sampling.quality import EXACT, INCREMENTAL, Judged, of_type, picked, told_exactly, told_from_samples
from muntin.sampling.samples import EVERYTHING, Drawn
from muntin.sampling.store import SampleStore
from muntin.whole.held import Held

if TYPE_CHECKING:
    from muntin.plan import Plan
    from muntin.whole.windows import WholeWindows


@dataclass
class Counted:
    """How many windows of keys were answered in which way, in one batch."""

    exact: int = 0
    incremental: int = 0
    approximate: int = 0


class ApproximateWindows:
    """The windows of a shard that close with one batch."""

    def __init__(self, plan: Plan, samples: SampleStore, whole: WholeWindows | None) -> None:
        assert plan.sampling is not None
        self._plan = plan
        self._sampling = plan.sampling
        self._policy = plan.sampling.policy
        assert plan.quality_type is not None
        self._kind = plan.quality_type
        self._samples = samples
        self._whole = whole
        self.counted = Counted()

    def values(self, family: Family, answers: Answers, known: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """All aggregates of each window, and the quality of that; `known` are the decomposable ones."""
        size = np.asarray(known[SIZE])
        count = len(answers.key)
        if not self._sampling.estimators:
            self.counted.incremental += count
            return {**known, "quality": told_exactly(self._kind, known, size, INCREMENTAL)}
        if self._sampling.hopeless:
            return self._all_exact(family, answers, known, size)
        told = self._estimate(family, answers, known, size)
        found = {**known}
        exact = np.flatnonzero(~told.good)
        holistic = {o.name for o in family.outputs if o.bound.whole is not None}
        computed: Mapping[str, pa.Array] = {}
        if len(exact) and holistic:
            assert self._whole is not None
            computed = self._whole.values(family, answers.take(exact))
        for name, estimate in told.estimates.items():
            kind = next(output.bound.result for output in family.outputs if output.name == name)
            other = computed[name] if name in holistic and len(exact) else known.get(name)
            # What decomposable aggregates know exactly anyway, they tell exactly.
            used = told.good if name in holistic else told.approximate
            found[name] = _chosen(of_type(estimate.values, kind), other, used, name in holistic)
        approximate = int(told.approximate.sum())
        self.counted.approximate += approximate
        self.counted.exact += count - approximate
        quality = told_from_samples(self._kind, found, size, told, self._policy.confidence)
        return {**found, "quality": quality}

    def _all_exact(
        self, family: Family, answers: Answers, known: Mapping[str, pa.Array], size: Int64Array
    ) -> dict[str, pa.Array]:
        assert self._whole is not None
        self.counted.exact += len(size)
        found = {**known, **self._whole.values(family, answers)}
        return {**found, "quality": told_exactly(self._kind, found, size, EXACT)}

    def _estimate(self, family: Family, answers: Answers, known: Mapping[str, pa.Array], size: Int64Array) -> Judged:
        window, groups = self._windows(family, answers)
        begin, end = self._positions(family, answers)
        most = self._shares(family, size, window, groups)
        complete = np.ones(len(size), dtype=bool)
        sampled = np.zeros(len(size), dtype=np.int64)
        seen: list[Seen] = []
        for number, spec in enumerate(self._sampling.specs):
            drawn = self._samples.of(family, number).windows(answers.key, begin, end, most)
            sizes = drawn.sizes
            whole = sizes < drawn.most if spec.of is not None else sizes >= size
            complete &= whole
            sampled += sizes
            seen.append(_seen(drawn, sizes, size, whole, self._policy))
        estimates, worst = {}, np.zeros(len(groups))
        for name, estimator in self._sampling.estimators.items():
            of = seen[self._sampling.spec_of(estimator)]
            estimates[name] = estimator.estimate(replace(of, statistics=self._statistics(name, known)))
            worst = np.maximum(worst, self._combined(estimates[name].error, window, groups))
        good = worst[window] <= self._policy.error
        return Judged(estimates, worst[window], good, np.minimum(sampled, size), complete & good)

    def _shares(self, family: Family, size: Int64Array, window: Int64Array, groups: Int64Array) -> Int64Array:
        """How many tuples the sample of each group may have, so that all of a window are within the budget."""
        share = min(self._samples.budget // len(self._sampling.specs), EVERYTHING)
        if not isinstance(family, TimeFamily) or not self._plan.keys:
            return np.full(len(size), share)
        expected = self._samples.known_groups
        if expected is None:
            return congress(size, window, share)
        # Divided from the start; where other groups have come, it does not go round.
        return np.where(groups[window] <= expected, share // max(expected, 1), 0)

    def _statistics(self, name: str, known: Mapping[str, pa.Array]) -> dict[str, Float64Array]:
        """The running statistics of an aggregate, which the panes of each window know."""
        hidden = self._sampling.hidden.items()
        own = {statistic: known[at] for at, (output, statistic) in hidden if output == name}
        return {each: values.numbers(of.fill_null(0) if of.null_count else of) for each, of in own.items()}

    def _combined(self, error: Float64Array, window: Int64Array, groups: Int64Array) -> Float64Array:
        """One error for the groups of each window: their mean (the paper's L1), or the largest."""
        if self._policy.combine == "max":
            largest = np.zeros(len(groups))
            np.maximum.at(largest, window, error)
            return largest
        return np.asarray(np.bincount(window, weights=error, minlength=len(groups)) / groups)

    def _windows(self, family: Family, answers: Answers) -> tuple[Int64Array, Int64Array]:
        """Which window each answer belongs to, and how many groups those have: a window over time has all keys."""
        if not isinstance(family, TimeFamily) or not self._plan.keys:
            return np.arange(len(answers.key)), np.ones(len(answers.key), dtype=np.int64)
        order = np.lexsort((answers.window, answers.model))
        starts = run_starts(answers.model[order], answers.window[order])
        groups = np.diff(starts, append=len(order))
        window = np.empty(len(order), dtype=np.int64)
        window[order] = np.repeat(np.arange(len(starts)), groups)
        return window, groups

    def _positions(self, family: Family, answers: Answers) -> tuple[Int64Array, Int64Array]:
        if answers.from_end is None:
            return answers.start, answers.end
        assert isinstance(family, TupleFamily)
        behind = self._samples.settled_counts(family, answers.key)
        return behind - answers.from_end[0], behind - answers.from_end[1]


def is_hidden(name: str) -> bool:
    return name.startswith(HIDDEN)


def _seen(drawn: Drawn, sizes: Int64Array, size: Int64Array, whole: BoolArray, policy: Approximation) -> Seen:
    tuples, begin, end = drawn.tuples()
    held = Held(tuples, begin, end, one_per_key=True)
    largest = np.ones(len(size))
    if drawn.samples.distinct:
        share = (drawn.largest_priority().astype(np.float64) + 1) / 2.0**64
        largest = np.where(whole, 1.0, np.minimum(share, 1 - 1e-16))
    return Seen(held, sizes, size, {}, policy.confidence, policy.error, largest)


def _chosen(estimates: pa.Array, exact: pa.Array | None, good: BoolArray, only_others: bool) -> pa.Array:
    """The estimates where they are good, else the exact answers, which may be there for the other windows only."""
    if good.all():
        return estimates
    assert exact is not None
    if not only_others:
        return picked(estimates, exact, good)
    both = pa.concat_arrays([estimates, exact])
    place = np.arange(len(good))
    place[~good] = len(good) + np.arange(int((~good).sum()))
    return both.take(pa.array(place))
