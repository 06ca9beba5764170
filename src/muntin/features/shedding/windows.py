"""At the watermark: what the tuples that were kept of a window say of all of its tuples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import overflow
from muntin.arrays import BoolArray, Float64Array, Int64Array, State, any_true
from muntin.engine.answers import Answered, AnswerLink, ClosedWindows
from muntin.engine.contents import OfContents, ShardTuples, holistic
from muntin.engine.estimates import (
    EXACT,
    INCREMENTAL,
    Estimates,
    is_bounded,
    marked,
    patched,
    picked,
    placed,
    written,
)
from muntin.engine.hidden import SIZE
from muntin.engine.operators.operator import Answers, LazyAggregates, Output, WindowOperator
from muntin.engine.plan import Plan
from muntin.features.shedding.plan import KEPT, MISSING, OF_ALL, STOOD_FOR, estimates_of, partners_of
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.registry import scaled_of
from muntin.features.shedding.scaled import Scaled, ShedWindows
from muntin.features.shedding.weighed import FIELDS
from muntin.features.shedding.weighed import Estimates as Weights
from muntin.holistic.contents import WindowContents
from muntin.holistic.frequent import Mode, TopK
from muntin.holistic.quantiles import Quantiles
from muntin.panes.tuples import WEIGHT
from muntin.partials.values import nan_as_null, of_type
from muntin.statistics.estimators import Interval
from muntin.statistics.frequencies import missed_in_kept
from muntin.statistics.quantiles import intervals

States: TypeAlias = Mapping[str, tuple[State, ...]]


@dataclass
class ShedCounts:
    """How the windows of keys of one batch were answered."""

    exact: int = 0
    approximate: int = 0
    error: float = 0.0
    """The sum of the errors that can be told."""
    with_error: int = 0
    """Of how many windows; of the other approximate ones, nobody can tell."""


class ShedLink:
    """What both links know of windows of which tuples may have been shed."""

    def __init__(self, plan: Plan, policy: Shedding, inner: AnswerLink, tuples: ShardTuples) -> None:
        self._plan = plan
        self._policy = policy
        self._inner = inner
        self._tuples = tuples
        self.counted = ShedCounts()

    def _estimates(self, known: Mapping[str, pa.Array], lazy: LazyAggregates) -> tuple[Estimates, Int64Array, States]:
        """What is known of windows before any aggregate is: how many tuples they have, and what was kept of them.

        And which of them tuples were shed of, with their hidden states.
        """
        size = np.asarray(known[SIZE])
        states: States = {}
        if self._policy.is_uniform:
            kept = np.asarray(known[KEPT])
            shed = np.flatnonzero(kept < size)
            if len(shed):
                states = lazy.states(shed)
        else:
            shed, kept = lazy.shed(), size
            if len(shed):
                states = lazy.states(shed)
                ((missing,),) = states[MISSING]
                kept = size.copy()
                kept[shed] -= missing
        exactly = EXACT if self._plan.keeps_tuples else INCREMENTAL
        error = np.zeros(len(shed))  # as far as nothing is asked
        return Estimates(shed, exactly, error, self._policy.confidence, kept, size), shed, states

    def _count(self, told: Estimates) -> None:
        known = told.error[np.isfinite(told.error)]
        self.counted.approximate += len(told.approximate)
        self.counted.exact += len(told.size) - len(told.approximate)
        self.counted.error += float(known.sum())
        self.counted.with_error += len(known)


class ShedFunction(ShedLink):
    """The link around a function of windows, or the pairs of a join: what they returned is of the tuples kept."""

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        estimates: Estimates | None = None
        for answered in self._inner.answer(windows):
            if estimates is None:  # windows may be answered in several pieces
                estimates = self._function_estimates(windows, answered.given)
            yield replace(answered, estimates=estimates)

    def _function_estimates(self, windows: ClosedWindows, given: Int64Array | None) -> Estimates:
        """How good the answers are of a function that was `given` so many tuples, if not all that are kept."""
        told, _, _ = self._estimates(windows.values, windows.lazy)
        given = told.sampled if given is None else given
        shed = np.flatnonzero(given < told.size)
        told = Estimates(shed, told.exact_mode, np.full(len(shed), np.nan), told.confidence, given, told.size)
        self._count(told)
        return told


class ShedAnswers(ShedLink):
    """The link that scales aggregates back to all tuples.

    Where nothing of a window was shed, its answers are what they are without shedding. The estimates of the others are
    lazy: mostly those windows are few.
    """

    @cached_property
    def _scaled(self) -> dict[str, Scaled | None]:
        return {each.name: scaled_of(each.bound.aggregate, each.bound) for each in self._plan.outputs}

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        known = windows.values
        told, shed, states = self._estimates(known, windows.lazy)
        asked = ShedWindows.of(told, shed, self._policy.is_uniform, _of_all(states))
        found = dict(known)
        if self._plan.keeps_tuples:
            found = self._of_tuples(windows, told)
            if self._policy.is_uniform:
                self._fit(windows.operator, windows.answers, known, found, told)
        if len(shed):
            for output in self._plan.outputs:
                self._scale(output, found, told, known, states, asked, shed)
        self._count(told)
        yield Answered(windows, found, told)

    def _fit(
        self,
        operator: WindowOperator,
        answers: Answers,
        known: Mapping[str, pa.Array],
        found: dict[str, pa.Array],
        told: Estimates,
    ) -> None:
        """What the tuples themselves say, where they were kept whatever their group is: as of all that there were."""
        kept, stood_for = np.asarray(known[KEPT]), np.asarray(known[STOOD_FOR])
        incomplete = marked(told.approximate, len(kept))
        # By chance all may have been kept, and each stands for itself alone.
        whole = np.flatnonzero(~incomplete & (stood_for > kept))
        exact = self._tuples.computed(operator, answers.take(whole), _unweighed(operator)) if len(whole) else {}
        # Others stand for themselves alone, though tuples were shed beside them, or there are none.
        blind = incomplete & (stood_for <= kept) & (kept < told.size)
        for output in self._plan.outputs:
            name = output.name
            if output.bound.holistic is None:
                continue
            if isinstance(output.bound.holistic, TopK):
                found[name] = _times(found[name], told.size / np.where(stood_for > 0, stood_for, np.inf))
            if name in exact:
                found[name] = _replaced(found[name], whole, exact[name])
            if any_true(blind):
                told.forget(name, blind)
                silent = blind & (kept == 0)
                found[name] = picked(pa.nulls(len(silent), found[name].type), found[name], silent)

    def _of_tuples(self, windows: ClosedWindows, told: Estimates) -> dict[str, pa.Array]:
        """With what needs the tuples themselves: all that were kept, or samples of those."""
        judging = _judging(windows.operator, self._policy.confidence)
        (answered,) = self._inner.answer(replace(windows, lazy=LazyAggregates(), also=judging))
        found = dict(answered.values)
        if answered.estimates is None:
            for name in judging:
                _judge(told, name.removeprefix(_JUDGED), found.pop(name))
            return found
        incomplete = told.approximate
        sampled = _add_samples(told, answered.estimates, found)
        rest = incomplete[~sampled[incomplete]]
        if len(rest):
            judged = self._tuples.computed(windows.operator, windows.answers.take(rest), judging)
            for name, of_rest in judged.items():
                output = name.removeprefix(_JUDGED)
                _judge(told, output, _scattered(of_rest, rest, told, output))
        return {name: values for name, values in found.items() if name not in judging}

    def _scale(
        self,
        output: Output,
        found: dict[str, pa.Array],
        told: Estimates,
        known: Mapping[str, pa.Array],
        states: States,
        asked: ShedWindows,
        shed: Int64Array,
    ) -> None:
        """One of the decomposable aggregates is scaled back, by the hidden `states` of windows that were shed."""
        scaled = self._scaled[output.name]
        if scaled is None:
            return
        if scaled.is_known:
            return
        of_kept = known[output.name]
        if len(shed) < len(told.size) and (of_kept.null_count or scaled.weighed is None):
            of_kept = of_kept.take(pa.array(shed))
        estimates, partners = None, None
        if scaled.weighed is not None:
            estimates = scaled.estimates(states[estimates_of(output.name)], asked.is_uniform)
        if scaled.partners is not None:
            partners = scaled.partners.estimates(states[partners_of(output.name)], asked.is_uniform)
        interval = scaled.interval(of_kept, estimates, asked, partners)
        if estimates is not None and interval is not None:
            found[output.name] = _corrected(found[output.name], shed, interval.value, of_kept, output)
        set_interval(told, output.name, interval, shed, found[output.name])


def set_interval(told: Estimates, name: str, interval: Interval | None, shed: Int64Array, answers: pa.Array) -> None:
    """What is known of one aggregate in the windows of which tuples were shed; None if that is nothing."""
    if interval is None:
        told.low[name] = told.high[name] = None
        told.may_be_off(np.full(len(shed), np.nan), shed)
        return
    exact = of_type(answers, pa.float64())
    told.low[name], told.high[name] = (_side(exact, shed, side) for side in (interval.low, interval.high))
    told.complete.add(name)
    relative = interval.relative_error
    relative[np.isinf(relative)] = np.nan
    told.may_be_off(relative, shed)


def _side(exact: pa.Array, shed: Int64Array, side: Float64Array) -> pa.Array:
    """One side of the intervals, null where it is NaN; that of an exact answer is the answer."""
    if exact.null_count or len(shed) == len(exact):
        return patched(exact, shed, nan_as_null(side))
    return placed(exact.to_numpy().copy(), shed, side)


def _of_all(states: States) -> Weights | None:
    """How many tuples the kept ones stand for, of windows of which tuples were shed whatever their group is."""
    return dict(zip(FIELDS, states[OF_ALL][0], strict=True)) if OF_ALL in states else None


def _unweighed(operator: WindowOperator) -> dict[str, OfContents]:
    """The holistic aggregates where every tuple stands for itself alone."""
    return {name: partial(_of_unweighed, function) for name, function in holistic(operator).items()}


def _of_unweighed(function: OfContents, held: WindowContents) -> pa.Array:
    columns = held.tuples.columns.drop_columns([WEIGHT])
    return function(replace(held, tuples=replace(held.tuples, columns=columns), _selections={}))


def _replaced(answers: pa.Array, at: Int64Array, others: pa.Array) -> pa.Array:
    """The array with other values at some places, of any type."""
    place = np.arange(len(answers))
    place[at] = len(answers) + np.arange(len(at))
    return pa.concat_arrays([answers, others]).take(pa.array(place))


_JUDGED = "judged "
_JUDGEMENT = ["low", "high", "error"]


def _judging(operator: WindowOperator, confidence: float) -> dict[str, OfContents]:
    """What says how good those aggregates are that are computed of the kept tuples themselves."""
    found: dict[str, OfContents] = {}
    for output in operator.outputs:
        whole = output.bound.holistic
        if isinstance(whole, Quantiles):
            found[_JUDGED + output.name] = partial(_sides, whole, confidence)
        elif isinstance(whole, (Mode, TopK)):
            found[_JUDGED + output.name] = partial(_missed, whole, confidence)
    return found


def _sides(whole: Quantiles, confidence: float, held: WindowContents) -> pa.Array:
    low, high = intervals(whole, held, confidence)
    return pa.StructArray.from_arrays([low, high, pa.nulls(len(low), pa.float64())], names=_JUDGEMENT)


def _missed(whole: Mode | TopK, confidence: float, held: WindowContents) -> pa.Array:
    """Values have no interval: what is told is by what share of the window a more frequent one may have been missed."""
    chosen = held.selected(whole.column, whole.where)
    k, as_list = (whole.k, True) if isinstance(whole, TopK) else (1, False)
    error = missed_in_kept(chosen, k, as_list, confidence)
    unknown = pa.nulls(len(error), pa.float64())
    return pa.StructArray.from_arrays([unknown, unknown, pa.array(error)], names=_JUDGEMENT)


def _judge(told: Estimates, name: str, judged: pa.Array) -> None:
    told.low[name], told.high[name] = judged.field("low"), judged.field("high")
    error = np.asarray(judged.field("error").fill_null(np.nan))[told.approximate]
    told.may_be_off(np.where(np.isfinite(error), error, np.nan))


def _scattered(judged: pa.Array, at: Int64Array, told: Estimates, name: str) -> pa.Array:
    """What is to be thought of some windows, among those of all."""
    count = len(told.size)
    place = np.arange(count)
    place[at] = count + np.arange(len(at))
    before = {"low": told.low.get(name), "high": told.high.get(name)}  # where answers are no numbers, there are none
    columns = []
    for field in judged.type:
        old = before.get(field.name)
        old = pa.nulls(count, field.type) if old is None else of_type(old, field.type)
        columns.append(pa.concat_arrays([old, judged.field(field.name)]).take(pa.array(place)))
    return pa.StructArray.from_arrays(columns, names=judged.type.names)


def _add_samples(told: Estimates, samples: Estimates, found: Mapping[str, pa.Array]) -> BoolArray:
    """What samples of kept tuples say, and which windows were answered from those."""
    sampled = marked(samples.approximate, len(told.size))
    error = np.full(len(sampled), np.nan)
    error[told.approximate] = told.error
    error[samples.approximate] = samples.error
    told.approximate = np.flatnonzero(marked(told.approximate, len(sampled)) | sampled)
    told.error = error[told.approximate]
    told.sampled = np.where(sampled, samples.sampled, told.sampled)
    for name in samples.low:
        if name in found and is_bounded(found[name].type):
            told.low[name], told.high[name] = samples.sides(name, found[name])
    return sampled


def _corrected(answers: pa.Array, shed: Int64Array, value: Float64Array, of_kept: pa.Array, output: Output) -> pa.Array:
    """Answers, and estimates where tuples were shed."""
    if pa.types.is_float64(answers.type) and not answers.null_count:
        return pa.array(value if len(shed) == len(answers) else written(answers.to_numpy().copy(), shed, value))
    return patched(answers, shed, typed(value, of_kept, output))


def _times(found: pa.ListArray, factor: Float64Array) -> pa.Array:
    """Lists of values and how often each occurs, with so many times as many of all."""
    item, count = found.flatten().flatten()
    more = np.rint(np.asarray(count) * np.repeat(factor, np.diff(found.offsets))).astype(np.int64)
    kind = found.type.value_type
    pairs = pa.StructArray.from_arrays([item, pa.array(more).cast(kind[1].type)], fields=list(kind))
    offsets = np.asarray(found.offsets) - found.offsets[0].as_py()
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=found.type)


def typed(value: Float64Array, of_kept: pa.Array, output: Output) -> pa.Array:
    """Estimates as answers: null where the kept tuples have none, either."""
    nothing, kind = np.asarray(of_kept.is_null()) if of_kept.null_count else None, output.bound.result
    if not pa.types.is_integer(kind):
        try:
            return of_type(pa.array(value, mask=nothing), kind)
        except pa.ArrowInvalid as error:
            raise overflow(output.name, kind) from error
    unknown = np.isnan(value)
    nothing = unknown if nothing is None else nothing | unknown
    rounded = np.rint(np.where(nothing, 0.0, value))
    if not np.all(np.abs(rounded) < 2.0**63):
        raise overflow(output.name, kind)
    return pa.array(rounded.astype(np.int64), mask=nothing)
