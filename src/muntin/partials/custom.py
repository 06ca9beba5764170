"""The state of a custom aggregate: the arrays that the user's functions return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, Int64Array, Runs, State, combine_present, fold_runs, run_starts
from muntin.errors import MuntinError
from muntin.partials import values
from muntin.partials.partial import Field, Partial
from muntin.partials.rows import Rows


@dataclass(frozen=True)
class Shape:
    """The form in which the user's functions return their state: one array, a tuple of arrays or a dict of them."""

    names: tuple[str, ...] | None
    size: int | None

    @classmethod
    def of(cls, state: Any, what: str) -> Shape:
        if isinstance(state, dict):
            return cls(tuple(state), len(state))
        if isinstance(state, tuple | list):
            return cls(None, len(state))
        if isinstance(state, np.ndarray):
            return cls(None, None)
        raise MuntinError(
            f"{what} of a custom aggregate must return a NumPy array, a tuple or a dict of them, got {state!r}."
        )

    def pack(self, state: Any) -> State:
        if self.size is None:
            return (np.asarray(state),)
        parts = state.values() if self.names is not None else state
        return tuple(np.asarray(part) for part in parts)

    def unpack(self, state: State) -> Any:
        if self.size is None:
            return state[0]
        return dict(zip(self.names, state, strict=True)) if self.names is not None else state


@dataclass(frozen=True)
class CustomPartial(Partial):
    """The user's state: one partial per pane if the aggregate is commutative, else one per tuple.

    A function that is not commutative can only combine neighbours in time. Until the last window of a pane has closed,
    a tuple may still arrive between any two others. So its lifted tuples stay separate, and are combined in the tree.
    """

    columns: tuple[str, ...]
    shape: Shape
    dtypes: tuple[str, ...]
    commutative: bool
    lift_function: Callable[..., Any]
    combine_function: Callable[[Any, Any], Any]
    rounds = True  # the user's function may add floats

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(dtype) for dtype in self.dtypes)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns

    def lift(self, rows: Rows) -> State:
        raise TypeError("a custom partial is lifted tuple by tuple: lift_tuples")

    def lift_tuples(self, rows: Rows) -> tuple[Int64Array, State]:
        """The positions of the tuples that count, and the lifted state of each."""
        mask = rows.mask(self.columns, self.where)
        positions = np.arange(len(rows.groups)) if mask is None else np.flatnonzero(mask)
        inputs = [as_numpy(rows.array(column).take(pa.array(positions))) for column in self.columns]
        lifted = self.shape.pack(self.lift_function(*inputs))
        return positions, self._typed(lifted, len(positions), "lift")

    def combine(self, left: State, right: State) -> State:
        result = self.combine_function(self.shape.unpack(left), self.shape.unpack(right))
        return self._typed(self.shape.pack(result), len(left[0]), "combine")

    def _typed(self, state: State, length: int, what: str) -> State:
        if len(state) != len(self.dtypes) or any(column.shape != (length,) for column in state):
            shapes = ", ".join(str(column.shape) for column in state)
            raise MuntinError(
                f"{what} of a custom aggregate must return {len(self.dtypes)} array(s) of length {length}, "
                f"got shapes {shapes}; return one value per input position."
            )
        return tuple(
            np.asarray(column).astype(dtype, copy=False) for column, dtype in zip(state, self.dtypes, strict=True)
        )


@dataclass(frozen=True)
class OptionalPartial(Partial):
    """A custom partial that shares its leaves with others. A flag marks the leaves that have tuples, and so a state."""

    inner: CustomPartial

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("bool"), *self.inner.fields)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.inner.inputs

    def lift(self, rows: Rows) -> State:
        """The tuples of each group must be neighbours, in order."""
        positions, state = self.inner.lift_tuples(rows)
        groups = rows.groups[positions]
        starts = run_starts(groups)
        present = np.zeros(rows.group_count, dtype=bool)
        present[groups[starts]] = True
        columns = [np.zeros(rows.group_count, dtype=column.dtype) for column in state]
        for column, folded in zip(
            columns, fold_runs(state, Runs.of(starts, len(groups)), self.inner.combine), strict=True
        ):
            column[present] = folded
        return (present, *columns)

    def combine(self, left: State, right: State) -> State:
        return combine_present(self.inner.combine, left, right)


def as_numpy(array: pa.Array) -> Array:
    """Values as the user's `lift` receives them: without nulls; strings as objects, times as datetime64[us]."""
    if pa.types.is_timestamp(array.type):
        return np.asarray(values.fixed_order_keys(array)).view("datetime64[us]")
    return np.asarray(array.to_numpy(zero_copy_only=False))
