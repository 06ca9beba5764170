"""The plan of a query's approximation: its samples, its running statistics, and the width of a sampled tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound
from muntin.engine.hidden import HIDDEN
from muntin.engine.plan import Draft
from muntin.errors import MuntinError
from muntin.expressions import shown
from muntin.features.sampling import error_metric
from muntin.features.sampling.epochs import TURNS
from muntin.features.sampling.error_metric import Metric
from muntin.features.sampling.estimated import CustomEstimator, DistinctEstimator, Estimator
from muntin.features.sampling.policy import Approximation
from muntin.features.sampling.registry import estimator_of
from muntin.features.sampling.samples import Samples
from muntin.panes import keys as key_codes
from muntin.panes.tuples import WEIGHT
from muntin.partials import values
from muntin.type_names import spark_name

INFEASIBLE_BY = 4
"""A budget this many times too small answers only windows that fit into it."""


@dataclass(frozen=True)
class SampleSpec:
    """The specification of a sample: of tuples with these columns, or of the distinct values of a column."""

    columns: tuple[str, ...]
    distinct: DistinctEstimator | None = None
    """The estimator whose distinct values are sampled."""

    def schema(self, tuples: pa.Schema | None) -> pa.Schema:
        """The schema of a sampled tuple, given the schema of ingested tuples."""
        return pa.schema([] if tuples is None else [tuples.field(name) for name in self.columns])

    @property
    def turns(self) -> int:
        """How many samples there are: of distinct values, windows that overlap may need two."""
        return 1 if self.distinct is None else TURNS

    def empty(self, tuples: pa.Schema | None) -> Samples:
        return Samples.none(self.schema(tuples), distinct=self.distinct is not None)


@dataclass(frozen=True)
class SamplingPlan:
    policy: Approximation
    estimators: Mapping[str, Estimator]
    """The estimators of the aggregates that samples may answer, by name."""
    specs: tuple[SampleSpec, ...]
    hidden: Mapping[str, tuple[str, str]]
    """The running statistics by their hidden name: the aggregate and the statistic."""
    tuple_bytes: int
    statistics_bytes: int
    groups_of_shard: tuple[int, ...] | None
    """The number of known groups in each shard."""
    metrics: Mapping[str, Metric]
    """The user's error metrics, by aggregate."""
    infeasible: bool
    """Whether the budget is so much too small that no samples are kept, and every window is exact."""

    def holds_groups(self, groups: int, key_bytes: int) -> bool:
        """Whether the statistics of the groups fit the budget, with one tuple of each."""
        if self.policy.budget is not None:
            return groups <= self.policy.budget
        if self.policy.budget_bytes is None:
            return True
        return key_bytes + groups * (self.statistics_bytes + self.tuple_bytes) <= self.policy.budget_bytes

    def check_complete(self) -> None:
        """Check what depends on all aggregates of the query."""
        error_metric.check_names(self.policy.metric, self.estimators)
        if self.policy.error >= 1:
            for name in self.estimators:
                if name not in self.metrics:
                    raise MuntinError(
                        f"error is {self.policy.error!r}, and the error of {name!r} is a share; give {name!r} a "
                        "metric, too, or an error between 0 and 1."
                    )

    @cached_property
    def sets(self) -> tuple[tuple[int, int], ...]:
        """The samples of each operator: the number of the specification, and the turn."""
        return tuple((number, turn) for number, spec in enumerate(self.specs) for turn in range(spec.turns))

    def spec_of(self, estimator: Estimator) -> int:
        return next(
            i
            for i, spec in enumerate(self.specs)
            if spec.distinct is estimator or (spec.distinct is None and not estimator.distinct)
        )


def estimated(aggregates: Mapping[str, Bound], policy: Approximation, shed: bool) -> dict[str, Estimator]:
    """The estimators of the aggregates that samples may answer; others are incremental, or scaled from kept tuples."""
    estimators = {}
    for name, bound in aggregates.items():
        estimator = estimator_of(bound.aggregate, bound)
        if bound.holistic is not None and estimator is None:
            raise MuntinError(
                f"{name} cannot be approximated: it cannot be estimated from a sample. Leave it out, or compute it "
                "in a separate query without .approximate()."
            )
        is_custom = isinstance(estimator, CustomEstimator)  # an explicit estimate is always used
        by_sample = bound.holistic is not None or is_custom or not (policy.incremental or shed)
        if estimator is not None and by_sample:
            estimators[name] = estimator
    return estimators


def statistics(estimators: Mapping[str, Estimator]) -> dict[str, tuple[tuple[str, str], Bound]]:
    """The hidden aggregates by name: the aggregate and the statistic that each is for, and how it is computed."""
    statistics_by_name = {}
    for name, estimator in estimators.items():
        for statistic, bound in estimator.statistics:
            statistics_by_name[f"{HIDDEN}{name}_{statistic}"] = ((name, statistic), bound)
    return statistics_by_name


def make(policy: Approximation, draft: Draft) -> SamplingPlan:
    """Plan and validate a policy for a query."""
    types, keys, shards = draft.tuple_types, draft.keys, len(draft.shards)
    estimators = estimated(draft.aggregates, policy, draft.weighs)
    of_tuples = [estimator for estimator in estimators.values() if not estimator.distinct]
    inputs = [column for estimator in of_tuples for column in estimator.inputs] + [WEIGHT] * draft.weighs
    columns = tuple(dict.fromkeys(inputs))
    if policy.is_auto and any(isinstance(estimator, CustomEstimator) for estimator in estimators.values()):
        raise MuntinError("budget is 'auto', which cannot be found for your own estimate; give a number of tuples.")
    metrics = error_metric.metrics_of(policy.metric, {name: draft.aggregates[name].result for name in estimators})
    if policy.is_auto and metrics:
        raise MuntinError("budget is 'auto', which cannot be found for your own error metric; give a number of tuples.")
    specs = [SampleSpec(columns)] if of_tuples else []
    specs += [
        SampleSpec((), estimator) for estimator in estimators.values() if isinstance(estimator, DistinctEstimator)
    ]
    hidden = {name: statistic for name, (statistic, _) in statistics(estimators).items()}
    if policy.budget_bytes is not None:
        for column in columns:
            if not values.is_fixed(types[column]):
                raise MuntinError(
                    f"budget is given in bytes, but values of column {shown(column)!r} ({spark_name(types[column])}) "
                    "have no fixed width; give it as a number of tuples."
                )
    # Key code, position and priority; then the columns.
    tuple_bytes = 24 + sum(max(1, types[column].bit_width // 8) for column in columns if values.is_fixed(types[column]))
    smallest = tuple_bytes + 8 * (len(hidden) + 1)
    if policy.budget_bytes is not None and policy.budget_bytes < smallest:
        raise MuntinError(
            f"budget is {policy.budget_bytes} bytes, and one sampled tuple with its statistics takes {smallest}; give "
            "at least as much."
        )
    if policy.budget is not None and policy.budget < len(specs):
        raise MuntinError(
            f"budget is {policy.budget}, but {len(specs)} samples share it; give at least one tuple to each."
        )
    sampling = SamplingPlan(
        policy=policy,
        estimators=estimators,
        specs=tuple(specs),
        hidden=hidden,
        tuple_bytes=tuple_bytes,
        statistics_bytes=8 * (len(hidden) + 1),
        groups_of_shard=_groups_of_shard(policy, types, keys, shards),
        metrics=metrics,
        infeasible=False,
    )
    most = policy.budget if policy.budget_bytes is None else policy.budget_bytes // tuple_bytes
    needed = (estimator.least(policy) for name, estimator in estimators.items() if name not in metrics)
    if most is not None and any(least > INFEASIBLE_BY * most for least in needed):
        return replace(sampling, specs=(), infeasible=True)
    return sampling


def _groups_of_shard(
    policy: Approximation, types: Mapping[str, pa.DataType], keys: Sequence[str], shards: int
) -> tuple[int, ...] | None:
    if policy.groups is None:
        return None
    if not keys:
        raise MuntinError("groups is given, but the query has no groups; name the key with by=, or leave groups out.")
    rows = [group if len(keys) > 1 else (group,) for group in policy.groups]
    columns = []
    for place, key in enumerate(keys):
        try:
            columns.append(pa.array([row[place] for row in rows], types[key]))
        except (pa.ArrowException, TypeError, ValueError, LookupError, OverflowError) as error:
            raise MuntinError(
                f"groups does not fit the key {shown(key)!r} ({spark_name(types[key])}): {error}. Give one value "
                "per key column."
            ) from error
    columns = [key_codes.normalised(column) for column in columns]
    _, first = key_codes.encode(columns, len(rows))
    distinct_columns = [column.take(pa.array(first)) for column in columns]
    shard = key_codes.hashes(distinct_columns, len(first)) % np.uint64(shards)
    counts = np.bincount(shard.astype(np.int64), minlength=shards)
    return tuple(counts.tolist())
