"""How an aggregate is scaled back where tuples were shed, by its type.

A package with aggregates of its own registers theirs in the same way:

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
from muntin.features.shedding.scaled import Kind, Scaled
from muntin.features.shedding.weighed import Weighed, WeighedSquares


@singledispatch
def scaled_of(aggregate: object, bound: Bound) -> Scaled | None:
    """None if the tuples that were kept say nothing of an aggregate; it may have a method `scaled` that knows."""
    scaled = getattr(aggregate, "scaled", None)
    return None if scaled is None else scaled(bound)


@scaled_of.register
def _(aggregate: CountAggregate, bound: Bound) -> Scaled:
    every = bound.where is None and aggregate.column is None
    return Scaled("count", Weighed(bound.where, aggregate.column), counted=every)


@scaled_of.register
def _(aggregate: SumAggregate, bound: Bound) -> Scaled:
    return Scaled("sum", Weighed(bound.where, aggregate.column))


@scaled_of.register
def _(aggregate: MeanAggregate, bound: Bound) -> Scaled:
    return Scaled("mean", Weighed(bound.where, aggregate.column))


@scaled_of.register
def _(aggregate: VarianceAggregate, bound: Bound) -> Scaled:
    kind: Kind = "deviation" if aggregate.root else "variance"
    return Scaled(kind, WeighedSquares(bound.where, aggregate.column), aggregate.sample)


@scaled_of.register
def _(aggregate: ExtremeAggregate, bound: Bound) -> Scaled | None:
    return {"min": Scaled("least"), "max": Scaled("greatest")}.get(aggregate.extreme)


@scaled_of.register
def _(aggregate: CustomAggregate, bound: Bound) -> Scaled:
    """It sees the tuples that were kept; how to scale it back nobody but its user knows."""
    return Scaled("as it is")
