"""`explain()`: what is answered from samples."""

from __future__ import annotations

from muntin.engine.plan import Plan
from muntin.features.sampling.feature import Sampling
from muntin.features.sampling.policy import Approximation
from muntin.sizes import describe_size
from muntin.written import written

_COMBINED = {"l2": "their root mean square", "max": "the largest of them"}


def explained(policy: Approximation, plan: Plan) -> list[str]:
    """How a query samples."""
    feature = plan.feature(Sampling)
    assert feature is not None
    sampling = feature.plan
    if not sampling.estimators:
        return [
            "Approximation: none is needed. All aggregates are answered from partial results, exactly, and `quality` "
            "says incremental."
        ]
    names = ", ".join(map(repr, sampling.estimators))
    if sampling.infeasible:
        least = max(estimator.least(policy) for estimator in sampling.estimators.values())
        return [
            f"Approximation: none. An error of {policy.error:g} with a confidence of {policy.confidence:g} takes "
            f"{least:,} tuples, many times the budget, so that every window is answered exactly."
        ]
    if policy.is_auto:
        budget = "as many tuples as the error requires, estimated from the data"
    elif policy.budget_bytes is not None:
        tuples = max(policy.budget_bytes - sampling.statistics_bytes, 0) // sampling.tuple_bytes
        budget = (
            f"{describe_size(policy.budget_bytes)}, which is up to {tuples:,} tuples of {sampling.tuple_bytes} bytes"
        )
    else:
        budget = f"{policy.budget:,} tuples"
    lines = [
        f"Approximation: {names} {'is' if len(sampling.estimators) == 1 else 'are'} answered from a sample of {budget} "
        f"per window and shard where the error is at most {policy.error:g} with a confidence of "
        f"{policy.confidence:g}, and exactly where it is not. Chunks are only read for exact answers.",
    ]
    for name, estimator in sampling.estimators.items():
        metric = sampling.metrics.get(name)
        said = estimator.explained(policy)
        lines.append(f"  {name}: {said if metric is None else f'the error is that of your metric {written(metric)}'}")
    if policy.combine != "l1" and plan.keys:
        how = f"your function {written(policy.combine)}" if callable(policy.combine) else _COMBINED[policy.combine]
        lines.append(f"  The error of a window is that of its groups: {how}.")
    return lines
