"""Registers the estimator of each type of aggregate.

A package with its own aggregates registers estimators in the same way:

    @estimator_of.register
    def _(aggregate: MyAggregate, bound: Bound) -> Estimator: ...
"""

from __future__ import annotations

from functools import singledispatch

import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.aggregates.custom import CustomAggregate
from muntin.aggregates.decomposable import (
    CountAggregate,
    MeanAggregate,
    SumAggregate,
    VarianceAggregate,
    counted,
    extreme_of,
    mean_of_moments,
    variance_of_moments,
)
from muntin.aggregates.holistic import CountDistinctAggregate, ModeAggregate, QuantileAggregate, TopKAggregate
from muntin.features.sampling.estimated import (
    CountEstimator,
    CustomEstimator,
    DistinctEstimator,
    Estimator,
    FrequencyEstimator,
    MeanEstimator,
    QuantileEstimator,
)
from muntin.features.sampling.spread import SpreadEstimator
from muntin.holistic.function import HolisticFunction
from muntin.partials.values import is_integer
from muntin.statistics.running import COUNT, HIGH, LOW, MEAN, VARIANCE


@singledispatch
def estimator_of(aggregate: object, bound: Bound) -> Estimator | None:
    """The estimator of an aggregate; None if samples cannot answer it."""
    return None


@estimator_of.register
def _(aggregate: CountAggregate, bound: Bound) -> Estimator | None:
    if bound.where is None and aggregate.column is None:
        return None  # the size of the window, which is always known
    return CountEstimator(((COUNT, bound),), aggregate.column, bound.where)


@estimator_of.register
def _(aggregate: SumAggregate, bound: Bound) -> Estimator:
    column, where = aggregate.column, bound.where
    statistics = _spread(column, aggregate.kind, where)
    return MeanEstimator(statistics, column, where, total=True, integer=is_integer(bound.result))


@estimator_of.register
def _(aggregate: MeanAggregate, bound: Bound) -> Estimator:
    column, where = aggregate.column, bound.where
    return MeanEstimator(_spread(column, aggregate.kind, where), column, where, total=False, integer=False)


@estimator_of.register
def _(aggregate: VarianceAggregate, bound: Bound) -> Estimator:
    column, where = aggregate.column, bound.where
    statistics = _spread(column, aggregate.kind, where)
    return SpreadEstimator(statistics, column, where, aggregate.sample, aggregate.root)


@estimator_of.register
def _(aggregate: QuantileAggregate, bound: Bound) -> Estimator:
    function = _function(bound)
    return QuantileEstimator(_count(function), function)


@estimator_of.register
def _(aggregate: ModeAggregate, bound: Bound) -> Estimator:
    function = _function(bound)
    return FrequencyEstimator(_count(function), function, 1, as_list=False)


@estimator_of.register
def _(aggregate: TopKAggregate, bound: Bound) -> Estimator:
    function = _function(bound)
    return FrequencyEstimator(_count(function), function, aggregate.k, as_list=True)


@estimator_of.register
def _(aggregate: CountDistinctAggregate, bound: Bound) -> Estimator:
    function = _function(bound)
    return DistinctEstimator(() if aggregate.others else _count(function), function)


@estimator_of.register
def _(aggregate: CustomAggregate, bound: Bound) -> Estimator | None:
    if aggregate.estimate is None:
        return None
    columns = tuple(map(str, aggregate.inputs))
    statistics = ((COUNT, counted(columns[0], bound.where)),)
    return CustomEstimator(statistics, columns, bound.where, aggregate.estimate, aggregate.returns)


def _spread(column: str, kind: pa.DataType | None, where: str | None) -> tuple[tuple[str, Bound], ...]:
    """The running statistics of a column: count, mean, variance and range of its values."""
    assert kind is not None, "the aggregate is bound"
    return (
        (COUNT, counted(column, where)),
        (MEAN, mean_of_moments(column, where)),
        (VARIANCE, variance_of_moments(column, where)),
        (LOW, extreme_of(column, kind, where)),
        (HIGH, extreme_of(column, kind, where, greatest=True)),
    )


def _count(function: HolisticFunction) -> tuple[tuple[str, Bound], ...]:
    """The number of values of the window that count."""
    return ((COUNT, counted(function.column, function.where)),)


def _function(bound: Bound) -> HolisticFunction:
    assert bound.holistic is not None, "a holistic aggregate is a function of the window's tuples"
    return bound.holistic
