"""The user's error metric: what `error=` limits, in place of the errors that estimators come with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, BoolArray, Float64Array, Int64Array
from muntin.errors import MuntinError, suggest
from muntin.partials.values import is_numeric, numbers, valid_mask

if TYPE_CHECKING:
    from muntin.features.sampling.estimated import Estimate

Metric: TypeAlias = Callable[[Any], Any]
"""Takes `MetricInput`, returns the error of each of its groups."""
Given: TypeAlias = Metric | Mapping[str, Metric] | None


@dataclass(frozen=True)
class MetricInput:
    """What an error metric gets: one value per group and window in each array."""

    name: str
    """The aggregate."""
    value: Array
    """The estimates: doubles, NaN for null; Python values if the aggregate is not a number."""
    low: Array
    """The lower ends of the intervals, in the same way; NaN or None where unknown."""
    high: Array
    error: Float64Array
    """The error that the aggregate comes with; infinite where unknown."""
    sampled: Int64Array
    """The rows in the sample."""
    size: Int64Array
    """The rows in the window."""
    confidence: float


def checked(metric: object) -> Given:
    """The argument `metric`, checked as far as it can be without the aggregates."""
    if metric is None or callable(metric):
        return metric
    functions = dict(metric) if isinstance(metric, Mapping) else {}
    if functions and all(isinstance(name, str) and callable(function) for name, function in functions.items()):
        return functions
    raise MuntinError(
        "metric must be a function of estimates, such as lambda e: (e.high - e.low) / 2, or a dict of functions by "
        f"the name of their aggregate, got {metric!r}."
    )


def metrics_of(metric: Given, kinds: Mapping[str, pa.DataType]) -> dict[str, Metric]:
    """The metric of each aggregate that samples answer; `kinds` are the types of these, by name."""
    if isinstance(metric, Mapping):
        metrics = {name: function for name, function in metric.items() if name in kinds}
    else:
        metrics = {} if metric is None else dict.fromkeys(kinds, metric)
    for name, function in metrics.items():
        if is_numeric(kinds[name]):
            _try(name, function)
    return metrics


def check_names(metric: Given, kinds: Mapping[str, pa.DataType]) -> None:
    """Reject a metric of an aggregate that samples do not answer."""
    for name in metric if isinstance(metric, Mapping) else ():
        if name not in kinds:
            raise MuntinError(
                f"metric names {name!r}, which is not an aggregate that samples answer. {suggest(name, kinds)} "
                "Panes answer the others exactly, unless incremental=False is given."
            )


def measured(
    metric: Metric,
    name: str,
    estimate: Estimate,
    sampled: Int64Array,
    size: Int64Array,
    complete: BoolArray,
    confidence: float,
) -> Float64Array:
    """The errors by the metric: 0 where the sample is the window, infinite where the metric does not know them."""
    sides = (pa.nulls(len(size), pa.float64()) if side is None else side for side in (estimate.low, estimate.high))
    low, high = map(_array, sides)
    given = MetricInput(name, _array(estimate.values), low, high, estimate.error, sampled, size, confidence)
    error = _returned(name, metric(given), len(size))
    # No estimate is as unknown as no error, unless the window is known to have no answer.
    valid = valid_mask(estimate.values)
    null = np.zeros(len(size), dtype=bool) if valid is None else ~valid
    known = complete | (null & (estimate.error == 0))
    return np.where(known, 0.0, np.where(np.isnan(error) | (error < 0) | null, np.inf, error))


def _array(column: pa.Array) -> Array:
    if is_numeric(column.type):
        valid = valid_mask(column)
        return numbers(column) if valid is None else np.where(valid, numbers(column), np.nan)
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_pylist()
    return values


def _returned(name: str, error: object, count: int) -> Float64Array:
    try:
        array = np.asarray(error, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.shape not in {(), (count,)}:
        raise MuntinError(
            f"metric must return an array with the error of each group: {count} estimates of {name!r} gave {error!r}."
        )
    return np.broadcast_to(array, (count,))


def _try(name: str, metric: Metric) -> None:
    """Try the metric of a number on two made-up groups."""
    two, large = np.array([2.0, 4.0]), np.array([100, 1000])
    made_up = MetricInput(name, two, two - 1, two + 1, np.array([0.5, 0.25]), large // 10, large, 0.95)
    try:
        error = metric(made_up)
    except Exception as problem:
        raise MuntinError(
            f"metric raised {type(problem).__name__} for two estimates of {name!r}: {problem}. It gets one object "
            "with the arrays value, low, high, error, sampled and size, and returns an array of errors."
        ) from problem
    _returned(name, error, 2)
