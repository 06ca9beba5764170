"""The error of a window, combined from those of its groups. Where one is unknown, so is the error of the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np

from muntin.arrays import Float64Array, Int64Array, all_true
from muntin.checks import one_of
from muntin.errors import MuntinError

Norm = Literal["l1", "l2", "max"]
Combination: TypeAlias = Norm | Callable[[Float64Array, Int64Array], float]
NORMS: dict[str, str] = {
    "l1": "the mean of the groups' errors",
    "l2": "their root mean square,",
    "max": "the largest, or your function of the errors and the sizes of a window's groups",
}


def checked(combine: object) -> Combination:
    """The argument `combine`, checked; a function is tried on two groups."""
    if not callable(combine):
        norm = one_of(combine, "combine", NORMS)
        return "max" if norm == "max" else "l2" if norm == "l2" else "l1"
    try:
        error = combine(np.array([0.1, 0.3]), np.array([10, 90]))
    except Exception as problem:
        raise MuntinError(
            "combine must take two arrays, the errors of a window's groups and their numbers of rows; it raised "
            f"{type(problem).__name__} for two groups: {problem}. Write it as "
            "lambda errors, sizes: np.average(errors, weights=sizes)."
        ) from problem
    _number(error)
    return combine


def combined(error: Float64Array, window: Int64Array, size: Int64Array, combine: Combination) -> Float64Array:
    """The error of every window, from those of its groups: group i has `size[i]` tuples and belongs to `window[i]`."""
    error = np.where(np.isnan(error), np.inf, error)
    if not callable(combine):
        return _norm(error, window, combine)
    order = np.argsort(window, kind="stable")
    ends = np.bincount(window).cumsum()
    groups = (np.split(array[order], ends[:-1]) for array in (error, size))
    errors = [_of_groups(errors, sizes, combine) for errors, sizes in zip(*groups, strict=True)]
    return np.array(errors)


def _norm(error: Float64Array, window: Int64Array, norm: Norm) -> Float64Array:
    groups = np.bincount(window)
    if norm == "max":
        largest = np.zeros(len(groups))
        np.maximum.at(largest, window, error)
        return largest
    if norm == "l2":
        return np.asarray(np.sqrt(np.bincount(window, weights=error**2) / groups))
    return np.asarray(np.bincount(window, weights=error) / groups)


def _of_groups(errors: Float64Array, sizes: Int64Array, combine: Callable[..., Any]) -> float:
    if not all_true(np.isfinite(errors)):
        return np.inf
    return _number(combine(errors, sizes))


def _number(error: object) -> float:
    """An error as a number, infinite if the function does not know it."""
    if isinstance(error, np.ndarray) and error.ndim == 0:
        error = error[()]
    if isinstance(error, bool) or not isinstance(error, int | float | np.integer | np.floating):
        raise MuntinError(f"combine must return one number, the error of the window, got {error!r}.")
    return float(error) if error >= 0 else np.inf
