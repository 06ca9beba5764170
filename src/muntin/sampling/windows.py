"""SPEAr's algorithm 2: at the watermark a window is answered from its sample if that is good enough, else exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.aggregates import values
from muntin.arrays import BoolArray, Float64Array, Int64Array, run_starts
from muntin.families.family import Answers, Family, TupleFamily
from muntin.families.time import TimeFamily
from muntin.sampling.allocation import congress
from muntin.sampling.estimated import Estimate, Seen
from muntin.sampling.plan import HIDDEN, SIZE
from muntin.sampling.samples import EVERYTHING, Drawn
from muntin.sampling.store import SampleStore
from muntin.whole.held import Held

if TYPE_CHECKING:
    from muntin.plan import Plan
    from muntin.whole.windows import WholeWindows

EXACT, INCREMENTAL, APPROXIMATE = "exact", "incremental", "approximate"


@dataclass
class Counted:
    """How many windows of keys were answered in which way, in one batch."""

    exact: int = 0
    incremental: int = 0
    approximate: int = 0


@dataclass(frozen=True)
class _Told:
    """Estimates for all windows, and which of them are good enough."""

    estimates: Mapping[str, Estimate]
    error: Float64Array
    """Of the window that each answer belongs to: the groups' errors combined, and the worst of the aggregates."""
    good: BoolArray
    sampled: Int64Array
    complete: BoolArray
    """Whether the sample is all there is."""


class ApproximateWindows:
    """The windows of a shard that close with one batch."""

    def __init__(self, plan: Plan, samples: SampleStore, whole: WholeWindows | None) -> None:
        assert plan.sampling is not None
        self._plan = plan
        self._sampling = plan.sampling
        self._policy = plan.sampling.policy
        self._samples = samples
        self._whole = whole
        self.counted = Counted()

    def values(self, family: Family, answers: Answers, known: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """All aggregates of each window, and the quality of that; `known` are the decomposable ones."""
        size = np.asarray(known[SIZE])
        count = len(answers.key)
        if not self._sampling.estimators:
            self.counted.incremental += count
            return {**known, "quality": self._quality(known, size, None, np.zeros(count, dtype=bool), INCREMENTAL)}
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
            used = told.good if name in holistic else told.good & ~told.complete
            found[name] = _chosen(estimate.values.cast(kind), other, used, name in holistic)
        approximate = told.good & ~told.complete
        self.counted.approximate += int(approximate.sum())
        self.counted.exact += int((~approximate).sum())
        return {**found, "quality": self._quality(found, size, told, approximate, EXACT)}

    def _estimate(self, family: Family, answers: Answers, known: Mapping[str, pa.Array], size: Int64Array) -> _Told:
        window, groups = self._windows(family, answers)
        begin, end = self._positions(family, answers)
        share = self._samples.budget // len(self._sampling.specs)
        most = np.full(len(size), min(share, EVERYTHING))
        if isinstance(family, TimeFamily) and self._plan.keys:
            expected = self._samples.known_groups
            if expected is None:
                most = congress(size, window, min(share, EVERYTHING))
            else:  # divided from the start; where others have come, it does not go round
                most = np.where(groups[window] <= expected, most // max(expected, 1), 0)
        complete = np.ones(len(size), dtype=bool)
        sampled = np.zeros(len(size), dtype=np.int64)
        seen: list[Seen] = []
        for number, spec in enumerate(self._sampling.specs):
            drawn = self._samples.of(family, number).windows(answers.key, begin, end, most)
            sizes = drawn.sizes
            whole = sizes < drawn.most if spec.of is not None else sizes >= size
            complete &= whole
            sampled += sizes
            seen.append(_seen(drawn, sizes, size, whole, self._policy.confidence))
        estimates, worst = {}, np.zeros(len(groups))
        for name, estimator in self._sampling.estimators.items():
            statistics = {
                statistic: values.numbers(known[hidden].fill_null(0))
                if known[hidden].null_count
                else values.numbers(known[hidden])
                for hidden, (output, statistic) in self._sampling.hidden.items()
                if output == name
            }
            of = seen[self._sampling.spec_of(estimator)]
            estimates[name] = estimator.estimate(_with_statistics(of, statistics))
            worst = np.maximum(worst, self._combined(estimates[name].error, window, groups))
        good = worst[window] <= self._policy.error
        return _Told(estimates, worst[window], good, np.minimum(sampled, size), complete & good)

    def _combined(self, error: Float64Array, window: Int64Array, groups: Int64Array) -> Float64Array:
        """One error for the groups of each window: their mean (the paper's L1), or the largest."""
        if self._policy.combine == "max":
            largest = np.zeros(len(groups))
            np.maximum.at(largest, window, error)
            return largest
        return np.asarray(np.bincount(window, weights=error, minlength=len(groups)) / groups)

    def _windows(self, family: Family, answers: Answers) -> tuple[Int64Array, Int64Array]:
        """Which window each answer belongs to, and how many groups those have: a window over time has all keys."""
        if not isinstance(family, TimeFamily):
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

    def _quality(
        self, found: Mapping[str, pa.Array], size: Int64Array, told: _Told | None, approximate: BoolArray, other: str
    ) -> pa.Array:
        kind = self._plan.quality_type
        assert kind is not None
        count = len(size)
        modes = np.where(approximate, APPROXIMATE, other)
        sides: dict[str, list[pa.Array]] = {"low": [], "high": []}
        if any(field.name == "low" for field in kind):
            for field in kind.field("low").type:
                exact = found[field.name].cast(field.type)
                estimate = None if told is None else told.estimates.get(field.name)
                for side in sides:
                    bound = None if estimate is None else getattr(estimate, side)
                    if estimate is None:
                        sides[side].append(exact)
                    else:
                        bound = pa.nulls(count, field.type) if bound is None else bound.cast(field.type)
                        sides[side].append(_picked(bound, exact, approximate))
        columns = {
            "mode": pa.array(modes),
            "error": pa.array(np.where(approximate, 0.0 if told is None else told.error, 0.0)),
            "confidence": pa.array(np.where(approximate, self._policy.confidence, 1.0)),
            "low": sides["low"],
            "high": sides["high"],
            "sampled": pa.array(size if told is None else np.where(approximate, told.sampled, size)),
            "size": pa.array(size),
        }
        arrays = []
        for field in kind:
            column = columns[field.name]
            if isinstance(column, list):
                column = pa.StructArray.from_arrays(column, fields=list(field.type))
            arrays.append(column)
        return pa.StructArray.from_arrays(arrays, fields=list(kind))


def quality_type(outputs: Mapping[str, pa.DataType]) -> pa.StructType:
    """Intervals are there for numbers, and for lists of them."""
    sides = pa.struct([(name, _side(kind)) for name, kind in outputs.items() if _side(kind) is not None])
    fields = [("mode", pa.string()), ("error", pa.float64()), ("confidence", pa.float64())]
    fields += [("low", sides), ("high", sides)] if sides.num_fields else []
    return pa.struct([*fields, ("sampled", pa.int64()), ("size", pa.int64())])


def _side(kind: pa.DataType) -> pa.DataType | None:
    if values.is_number(kind):
        return pa.float64()
    if pa.types.is_list(kind) and values.is_number(kind.value_type):
        return pa.list_(pa.float64())
    return None


def is_hidden(name: str) -> bool:
    return name.startswith(HIDDEN)


def _seen(drawn: Drawn, sizes: Int64Array, size: Int64Array, whole: BoolArray, confidence: float) -> Seen:
    tuples, begin, end = drawn.tuples()
    largest = np.where(whole, 1.0, (drawn.largest_priority().astype(np.float64) + 1) / 2.0**64)
    return Seen(
        Held(tuples, begin, end), sizes, size, {}, confidence, np.where(whole, 1.0, np.minimum(largest, 1 - 1e-16))
    )


def _with_statistics(seen: Seen, statistics: Mapping[str, Float64Array]) -> Seen:
    return Seen(seen.held, seen.sampled, seen.size, statistics, seen.confidence, seen.largest_priority)


def _chosen(estimates: pa.Array, exact: pa.Array | None, good: BoolArray, only_others: bool) -> pa.Array:
    """The estimates where they are good, else the exact answers, which may be there for the other windows only."""
    if good.all():
        return estimates
    assert exact is not None
    if not only_others:
        return _picked(estimates, exact, good)
    both = pa.concat_arrays([estimates, exact])
    place = np.arange(len(good))
    place[~good] = len(good) + np.arange(int((~good).sum()))
    return both.take(pa.array(place))


def _picked(first: pa.Array, second: pa.Array, where: BoolArray) -> pa.Array:
    if where.all():
        return first
    if not where.any():
        return second
    both = pa.concat_arrays([first, second])
    return both.take(pa.array(np.arange(len(where)) + np.where(where, 0, len(where))))
