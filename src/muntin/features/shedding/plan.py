"""The hidden aggregates of a query that sheds, and the check whether a query can shed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound, Dictionaries
from muntin.arrays import State
from muntin.engine.hidden import HIDDEN
from muntin.errors import MuntinError
from muntin.features.shedding.corrections import Missing
from muntin.features.shedding.registry import scaled_of
from muntin.features.shedding.weighed import FIELDS, Weighed
from muntin.partials.partial import Partial
from muntin.statistics.running import COUNT, MEAN, VARIANCE
from muntin.windows import PaneWindow, Window

KEPT = HIDDEN + "kept"
"""The number of kept tuples of a window, after uniform shedding."""
REPRESENTED = HIDDEN + "stood_for"
"""The number of tuples that those represent, an estimate of the window's size."""
OF_ALL = HIDDEN + "of_all"
"""The same with its variance."""
MISSING = HIDDEN + "missing"
"""The number of shed tuples, after shedding by concept."""


def check(windows: Sequence[Window], aggregates: Mapping[str, Bound]) -> None:
    for window in windows:
        if not isinstance(window, PaneWindow):
            raise MuntinError(
                f"shed() is for windows over time, and {window.title!r} depends on its tuples: without some of them, "
                "its windows would be others. Use W.tumbling, W.sliding or W.cumulative, or leave shed() out."
            )
    for name, bound in aggregates.items():
        if scaled_of(bound.aggregate, bound) is None and not (
            bound.holistic is not None and bound.holistic.takes_weights
        ):
            raise MuntinError(
                f"{name} cannot be computed under shed(): it returns single tuples, or depends on all of them, and any "
                "of them may have been dropped, so it cannot be estimated. Leave it out, or compute it in a separate "
                "query without shed()."
            )


def hidden(aggregates: Mapping[str, Bound], is_uniform: bool) -> dict[str, Bound]:
    """The hidden aggregates: the kept or the missing tuples, and the estimates of every other aggregate."""
    if is_uniform:
        bounds = {KEPT: Bound((Weighed(None, None),), pa.int64(), _lower_kept)}
        bounds[REPRESENTED] = Bound((Weighed(None, None),), pa.float64(), _lower_represented)
        bounds[OF_ALL] = _in_states(Weighed(None, None))
    else:
        bounds = {MISSING: _in_states(Missing(None))}
    for name, bound in aggregates.items():
        scaled = scaled_of(bound.aggregate, bound)
        if scaled is None or scaled.weighed is None or scaled.is_known or name.startswith(HIDDEN):
            continue
        bounds[estimates_of(name)] = _in_states(*scaled.partials(is_uniform, bound.partials))
        if scaled.partners is not None and scaled.partners.weighed is not None:
            bounds[partners_of(name)] = _in_states(*scaled.partners.partials(is_uniform, ()))
    return bounds


def lazy(aggregates: Collection[str]) -> set[str]:
    """The hidden aggregates that are needed only for windows that lost tuples."""
    return {MISSING, OF_ALL, *(hidden_name(name) for name in aggregates for hidden_name in (estimates_of, partners_of))}


def estimates_of(name: str) -> str:
    return f"{HIDDEN}{name}_estimates"


def partners_of(name: str) -> str:
    return f"{HIDDEN}{name}_partners"


def statistic(name: str, bound: Bound) -> Bound:
    """A running statistic of a sample, estimated from the kept tuples."""
    inner = bound.partials[0]
    column = inner.inputs[0] if inner.inputs else None
    weighed = Weighed(inner.where, column)
    return Bound((weighed,), pa.float64(), partial(_lower_statistic, name))


def _in_states(*partials: Partial) -> Bound:
    """An aggregate that is read as states, because one answer cannot express it."""
    return Bound(partials, pa.null(), _lower_no_states)


def _lower_no_states(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    raise TypeError("estimates are made of states as they are")


def _lower_kept(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    (state,) = states
    return pa.array(state[FIELDS.index("kept")].astype(np.int64))


def _lower_represented(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    (state,) = states
    return pa.array(state[FIELDS.index("count")])


def _lower_statistic(name: str, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((count, mean, squares, *_),) = states
    if name == COUNT:
        return pa.array(np.rint(count))
    with np.errstate(divide="ignore", invalid="ignore"):
        return pa.array({MEAN: mean, VARIANCE: np.maximum(squares, 0) / np.maximum(count, 1)}[name])
