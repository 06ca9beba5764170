"""Registers how each type of aggregate is scaled back after shedding.

A package with its own aggregates registers them in the same way:

    @scaled_of.register
    def _(aggregate: MyAggregate, bound: Bound) -> Scaled: ...
"""

from __future__ import annotations

from functools import singledispatch

from muntin.aggregates.aggregate import Bound
from muntin.aggregates.custom import CustomAggregate
from muntin.aggregates.decomposable import (
    CountAggregate,
    ExtremeAggregate,
    MeanAggregate,
    SumAggregate,
    VarianceAggregate,
)
from muntin.features.shedding.scaled import Kind, Measure, Scaled


@singledispatch
def scaled_of(aggregate: object, bound: Bound) -> Scaled | None:
    """None if kept tuples cannot answer an aggregate. Its method `scaled`, if it has one, decides."""
    scaled = getattr(aggregate, "scaled", None)
    return None if scaled is None else scaled(bound)


@scaled_of.register
def _(aggregate: CountAggregate, bound: Bound) -> Scaled:
    counts_all = bound.where is None and aggregate.column is None
    return Scaled("count", Measure(bound.where, aggregate.column), counted=counts_all)


@scaled_of.register
def _(aggregate: SumAggregate, bound: Bound) -> Scaled:
    return Scaled("sum", Measure(bound.where, aggregate.column))


@scaled_of.register
def _(aggregate: MeanAggregate, bound: Bound) -> Scaled:
    return Scaled("mean", Measure(bound.where, aggregate.column))


@scaled_of.register
def _(aggregate: VarianceAggregate, bound: Bound) -> Scaled:
    kind: Kind = "deviation" if aggregate.root else "variance"
    return Scaled(kind, Measure(bound.where, aggregate.column), aggregate.sample)


@scaled_of.register
def _(aggregate: ExtremeAggregate, bound: Bound) -> Scaled | None:
    return {"min": Scaled("least"), "max": Scaled("greatest")}.get(aggregate.extreme)


@scaled_of.register
def _(aggregate: CustomAggregate, bound: Bound) -> Scaled:
    """It is computed from the kept tuples; only its author knows how to scale it."""
    return Scaled("as it is")
