"""When windows close: from kept tuples to answers for all tuples, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import overflow
from muntin.arrays import BoolArray, Float64Array, Int64Array, State, all_true, any_true
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
from muntin.features.shedding.plan import MISSING, SURPLUS, estimates_of, sees_all
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.registry import scaled_of
from muntin.features.shedding.scaled import Scaled
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
    """Counts of windows and keys by how they were answered, in one batch."""

    exact: int = 0
    approximate: int = 0
    error: float = 0.0
    """The sum of the known errors."""
    rows: int = 0
    """The rows of all these windows."""
    kept_rows: int = 0
    """Those of them that were kept."""
    with_error: int = 0
    """Windows with a known error; that of the other approximate ones is unknown."""

    def count(self, estimates: Estimates) -> None:
        """Count windows whose estimates are complete."""
        errors = estimates.error[np.isfinite(estimates.error)]
        self.approximate += len(estimates.approximate)
        self.exact += len(estimates.size) - len(estimates.approximate)
        self.error += float(errors.sum())
        self.with_error += len(errors)


@dataclass(frozen=True)
class _Kept:
    """What is known of windows before any aggregate is scaled back."""

    estimates: Estimates
    kept: Int64Array
    """How many of its tuples each window kept."""
    represented: Float64Array
    """How many tuples the kept ones of each window represent by their weights."""
    shed: Int64Array
    """The windows that lost tuples."""
    states: States
    """Their hidden states."""


def _of(state: State, windows: BoolArray) -> State:
    return tuple(column[windows] for column in state)


class ShedLink:
    """Base of both links for windows from which tuples may have been shed."""

    def __init__(self, plan: Plan, policy: Shedding, inner: AnswerLink, tuples: ShardTuples) -> None:
        self._plan = plan
        self._policy = policy
        self._inner = inner
        self._tuples = tuples
        self.counted = ShedCounts()

    def _estimates(self, known: Mapping[str, pa.Array], lazy: LazyAggregates) -> _Kept:
        """The estimates before any aggregate, with the sizes of windows and the numbers of their kept tuples."""
        size = np.asarray(known[SIZE])
        kept, represented = size.copy(), size.astype(np.float64)
        shed, states = lazy.incomplete(), {}
        if len(shed):
            states = lazy.states(shed)
            ((missing,),) = states[MISSING]
            kept[shed] -= missing
            if SURPLUS in states:
                represented[shed] += states[SURPLUS][0][0]
            lost = missing > 0  # uniformly, a pane may happen to lose none, and still not represent itself
            if not all_true(lost):
                shed = shed[lost]
                states = {name: tuple(_of(state, lost) for state in of) for name, of in states.items()}
        self.counted.rows += int(size.sum())
        self.counted.kept_rows += int(kept.sum())
        exactly = EXACT if self._plan.keeps_tuples else INCREMENTAL
        error = np.zeros(len(shed))  # aggregates raise it later
        return _Kept(
            Estimates(shed, exactly, error, self._policy.confidence, kept, size), kept, represented, shed, states
        )


class ShedFunction(ShedLink):
    """The link around a window function or the pairs of a join, which see only kept tuples."""

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        function = self._plan.function
        assert function is not None
        # Pairs come in several pieces, or in none; the user's function is given part of the tuples.
        kept = self._estimates(windows.values, windows.lazy).estimates
        of_all = self._function_estimates(kept, None) if function.knows_weights else None
        for answered in self._inner.answer(windows):
            yield replace(answered, estimates=of_all or self._function_estimates(kept, answered.given))

    def _function_estimates(self, estimates: Estimates, given: Int64Array | None) -> Estimates:
        """The estimates of a function that got `given` tuples of each window; None means all kept ones."""
        given = estimates.sampled if given is None else given
        shed = np.flatnonzero(given < estimates.size)
        estimates = Estimates(
            shed, estimates.exact_mode, np.full(len(shed), np.nan), estimates.confidence, given, estimates.size
        )
        self.counted.count(estimates)
        return estimates


class ShedAnswers(ShedLink):
    """The link that scales aggregates back to all tuples.

    Windows that lost no tuples are answered as without shedding. The states for the others, usually few, are lazy.
    """

    @cached_property
    def _scaled(self) -> Mapping[str, Scaled | None]:
        """How each aggregate is scaled that saw only kept tuples."""
        return {
            output.name: scaled_of(output.bound.aggregate, output.bound)
            for output in self._plan.outputs
            if not sees_all(output.bound, self._policy.incremental)
        }

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        known = windows.values
        kept = self._estimates(known, windows.lazy)
        estimates = kept.estimates
        answers = dict(known)
        if self._plan.keeps_tuples:
            answers = self._of_tuples(windows, estimates)
            if self._policy.is_uniform:
                self._fit(windows.operator, windows.answers, answers, kept)
        if len(kept.shed):
            for output in self._plan.outputs:
                self._scale(output, answers, estimates, known, kept)
        self.counted.count(estimates)
        yield Answered(windows, answers, estimates)

    def _fit(self, operator: WindowOperator, ranges: Answers, answers: dict[str, pa.Array], windows: _Kept) -> None:
        """After uniform shedding, scale holistic aggregates of the kept tuples to all tuples."""
        estimates, kept, represented = windows.estimates, windows.kept, windows.represented
        incomplete = kept < estimates.size
        # All tuples may happen to be kept; then each represents only itself.
        complete = np.flatnonzero(~incomplete & (represented > kept))
        computed = self._tuples.computed(operator, ranges.take(complete), _unweighed(operator)) if len(complete) else {}
        # Here kept tuples represent only themselves although others were shed, or none was kept.
        unsampled = incomplete & (represented <= kept)
        for output in self._plan.outputs:
            name = output.name
            if output.bound.holistic is None:
                continue
            if isinstance(output.bound.holistic, TopK):
                answers[name] = times(answers[name], estimates.size / np.where(represented > 0, represented, np.inf))
            if name in computed:
                answers[name] = _replaced(answers[name], complete, computed[name])
            if any_true(unsampled):
                estimates.forget(name, unsampled)
                empty = unsampled & (kept == 0)
                answers[name] = picked(pa.nulls(len(empty), answers[name].type), answers[name], empty)

    def _of_tuples(self, windows: ClosedWindows, estimates: Estimates) -> dict[str, pa.Array]:
        """The answers that need tuples: from all kept ones, or from samples of those."""
        judging = _judging(windows.operator, self._policy.confidence)
        (answered,) = self._inner.answer(replace(windows, lazy=LazyAggregates(), also=judging))
        answers = dict(answered.values)
        if answered.estimates is None:
            for name in judging:
                _judge(estimates, name.removeprefix(_JUDGED), answers.pop(name))
            return answers
        incomplete = estimates.approximate
        sampled = _add_samples(estimates, answered.estimates, answers)
        unjudged = incomplete[~sampled[incomplete]]
        if len(unjudged):
            judged = self._tuples.computed(windows.operator, windows.answers.take(unjudged), judging)
            for name, judgement in judged.items():
                output = name.removeprefix(_JUDGED)
                _judge(estimates, output, _scattered(judgement, unjudged, estimates, output))
        return {name: values for name, values in answers.items() if name not in judging}

    def _scale(
        self,
        output: Output,
        answers: dict[str, pa.Array],
        estimates: Estimates,
        known: Mapping[str, pa.Array],
        kept: _Kept,
    ) -> None:
        """Scale an aggregate that saw only kept tuples, by the hidden states of the windows that lost tuples."""
        name, scaled, shed = output.name, self._scaled.get(output.name), kept.shed
        if scaled is None or scaled.is_known:
            return
        kept_answers = known[name].take(pa.array(shed))
        states = None if scaled.measure is None else kept.states[estimates_of(name)]
        interval = scaled.interval(kept_answers, states, self._policy.confidence)
        if states is not None and interval is not None:
            answers[name] = corrected(answers[name], shed, interval.value, kept_answers, output)
        set_interval(estimates, name, interval, shed, answers[name])


def set_interval(
    estimates: Estimates, name: str, interval: Interval | None, shed: Int64Array, answers: pa.Array
) -> None:
    """Set the interval of an aggregate in the windows that lost tuples; None means that it is unknown."""
    if interval is None:
        estimates.low[name] = estimates.high[name] = None
        estimates.may_be_off(np.full(len(shed), np.nan), shed)
        return
    exact = of_type(answers, pa.float64())
    estimates.low[name], estimates.high[name] = (_side(exact, shed, side) for side in (interval.low, interval.high))
    estimates.complete.add(name)
    if pa.types.is_integer(answers.type):  # the error is that of the answer, which is rounded
        rounded = np.asarray(exact.take(pa.array(shed)).fill_null(np.nan))
        interval = Interval(np.where(np.isnan(rounded), interval.value, rounded), interval.low, interval.high)
    relative = interval.relative_error
    relative[np.isinf(relative)] = np.nan
    estimates.may_be_off(relative, shed)


def _side(exact: pa.Array, shed: Int64Array, side: Float64Array) -> pa.Array:
    """One side of the intervals, null where it is NaN; both sides of an exact answer are the answer."""
    if exact.null_count or len(shed) == len(exact):
        return patched(exact, shed, nan_as_null(side))
    return placed(exact.to_numpy().copy(), shed, side)


def _unweighed(operator: WindowOperator) -> dict[str, OfContents]:
    """The holistic aggregates with all weights ignored."""
    return {name: partial(_of_unweighed, function) for name, function in holistic(operator).items()}


def _of_unweighed(function: OfContents, contents: WindowContents) -> pa.Array:
    columns = contents.tuples.columns.drop_columns([WEIGHT])
    return function(replace(contents, tuples=replace(contents.tuples, columns=columns), _selections={}))


def _replaced(answers: pa.Array, positions: Int64Array, others: pa.Array) -> pa.Array:
    """The array, of any type, with other values at these positions."""
    rows = np.arange(len(answers))
    rows[positions] = len(answers) + np.arange(len(positions))
    return pa.concat_arrays([answers, others]).take(pa.array(rows))


_JUDGED = "judged "
_JUDGEMENT = ["low", "high", "error"]


def _judging(operator: WindowOperator, confidence: float) -> dict[str, OfContents]:
    """The functions that bound the holistic aggregates computed from kept tuples."""
    judging: dict[str, OfContents] = {}
    for output in operator.outputs:
        holistic_function = output.bound.holistic
        if isinstance(holistic_function, Quantiles):
            judging[_JUDGED + output.name] = partial(_sides, holistic_function, confidence)
        elif isinstance(holistic_function, (Mode, TopK)):
            judging[_JUDGED + output.name] = partial(_missed, holistic_function, confidence)
    return judging


def _sides(quantiles: Quantiles, confidence: float, contents: WindowContents) -> pa.Array:
    low, high = intervals(quantiles, contents, confidence)
    return pa.StructArray.from_arrays([low, high, pa.nulls(len(low), pa.float64())], names=_JUDGEMENT)


def _missed(frequent: Mode | TopK, confidence: float, contents: WindowContents) -> pa.Array:
    """Values have no interval; the error is the share by which a more frequent value may have been missed."""
    selected = contents.selected(frequent.column, frequent.where)
    k, as_list = (frequent.k, True) if isinstance(frequent, TopK) else (1, False)
    error = missed_in_kept(selected, k, as_list, confidence)
    unknown = pa.nulls(len(error), pa.float64())
    return pa.StructArray.from_arrays([unknown, unknown, pa.array(error)], names=_JUDGEMENT)


def _judge(estimates: Estimates, name: str, judged: pa.Array) -> None:
    estimates.low[name], estimates.high[name] = judged.field("low"), judged.field("high")
    error = np.asarray(judged.field("error").fill_null(np.nan))[estimates.approximate]
    estimates.may_be_off(np.where(np.isfinite(error), error, np.nan))


def _scattered(judged: pa.Array, positions: Int64Array, estimates: Estimates, name: str) -> pa.Array:
    """The judgements of some windows at their positions among all windows; the others keep theirs."""
    count = len(estimates.size)
    rows = np.arange(count)
    rows[positions] = count + np.arange(len(positions))
    bounds = {
        "low": estimates.low.get(name),
        "high": estimates.high.get(name),
    }  # answers that are not numbers have none
    columns = []
    for field in judged.type:
        column = bounds.get(field.name)
        column = pa.nulls(count, field.type) if column is None else of_type(column, field.type)
        columns.append(pa.concat_arrays([column, judged.field(field.name)]).take(pa.array(rows)))
    return pa.StructArray.from_arrays(columns, names=judged.type.names)


def _add_samples(estimates: Estimates, samples: Estimates, answers: Mapping[str, pa.Array]) -> BoolArray:
    """Add the estimates from samples of kept tuples; returns which windows were answered from samples."""
    sampled = marked(samples.approximate, len(estimates.size))
    error = np.full(len(sampled), np.nan)
    error[estimates.approximate] = estimates.error
    error[samples.approximate] = samples.error
    estimates.approximate = np.flatnonzero(marked(estimates.approximate, len(sampled)) | sampled)
    estimates.error = error[estimates.approximate]
    estimates.sampled = np.where(sampled, samples.sampled, estimates.sampled)
    for name in samples.low:
        if name in answers and is_bounded(answers[name].type):
            estimates.low[name], estimates.high[name] = samples.sides(name, answers[name])
    return sampled


def corrected(
    answers: pa.Array, shed: Int64Array, value: Float64Array, kept_answers: pa.Array, output: Output
) -> pa.Array:
    """The answers, with estimates in the windows that lost tuples."""
    if pa.types.is_float64(answers.type) and not answers.null_count:
        return pa.array(value if len(shed) == len(answers) else written(answers.to_numpy().copy(), shed, value))
    return patched(answers, shed, typed(value, kept_answers, output))


def times(lists: pa.ListArray, factor: Float64Array) -> pa.Array:
    """Lists of values and their counts, with the counts of each list multiplied by its factor."""
    item, count = lists.flatten().flatten()
    counts = np.rint(np.asarray(count) * np.repeat(factor, np.diff(lists.offsets))).astype(np.int64)
    pair_type = lists.type.value_type
    pairs = pa.StructArray.from_arrays([item, pa.array(counts).cast(pair_type[1].type)], fields=list(pair_type))
    offsets = np.asarray(lists.offsets) - lists.offsets[0].as_py()
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=lists.type)


def typed(value: Float64Array, kept_answers: pa.Array, output: Output) -> pa.Array:
    """Estimates in the type of the answers, null where the kept tuples have no answer."""
    null, result_type = np.asarray(kept_answers.is_null()) if kept_answers.null_count else None, output.bound.result
    if not pa.types.is_integer(result_type):
        try:
            return of_type(pa.array(value, mask=null), result_type)
        except pa.ArrowInvalid as error:
            raise overflow(output.name, result_type) from error
    unknown = np.isnan(value)
    null = unknown if null is None else null | unknown
    rounded = np.rint(np.where(null, 0.0, value))
    if not np.all(np.abs(rounded) < 2.0**63):
        raise overflow(output.name, result_type)
    return pa.array(rounded.astype(np.int64), mask=null)
