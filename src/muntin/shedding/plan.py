"""What a query that sheds keeps beside its aggregates, and which queries can shed at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound, Dictionaries
from muntin.arrays import State
from muntin.errors import MuntinError
from muntin.sampling.estimated import COUNT, MEAN, VARIANCE
from muntin.sampling.plan import HIDDEN
from muntin.shedding.weighed import Kept, Weighed
from muntin.windows import PaneWindow, Window

KEPT = HIDDEN + "kept"
"""How many tuples of a window were kept."""
RECEIVED = HIDDEN + "received"
"""What is estimated of how many there were."""


def check(windows: Sequence[Window], aggregates: Mapping[str, Bound]) -> None:
    for window in windows:
        if not isinstance(window, PaneWindow):
            raise MuntinError(
                f"shed() is for windows over time, and {window.title!r} is made by its tuples: without some of them it "
                "would be another window. Use W.tumbling, W.sliding or W.cumulative, or leave shed() out."
            )
    for name, bound in aggregates.items():
        if bound.scaled is None and not (bound.whole is not None and bound.whole.of_weighted):
            raise MuntinError(
                f"{name} cannot be computed under shed(): it tells single tuples, or is about all of them, and any of "
                "them may have been dropped, so that the rest says nothing of it. Leave it out, or compute it in a "
                "query of its own without shed()."
            )


def hidden(aggregates: Mapping[str, Bound], by_chance: bool) -> dict[str, Bound]:
    """The aggregates that are computed and not told: what was kept, and the estimates of every other aggregate."""
    found = {KEPT: Bound((Kept(None),), pa.int64(), _lower_kept)}
    if by_chance:  # else the groups are counted
        found[RECEIVED] = _estimates(Weighed(None, None))
    for name, bound in aggregates.items():
        scaled = bound.scaled
        if scaled is None or scaled.weighed is None or scaled.is_known(by_chance) or name.startswith(HIDDEN):
            continue
        found[estimates_of(name)] = _estimates(scaled.weighed)
        if scaled.partners is not None and scaled.partners.weighed is not None:
            found[partners_of(name)] = _estimates(scaled.partners.weighed)
    return found


def later(aggregates: Collection[str]) -> set[str]:
    """Those of them that only windows need of which tuples were shed."""
    return {of(name) for name in aggregates for of in (estimates_of, partners_of)}


def estimates_of(name: str) -> str:
    return f"{HIDDEN}{name}_estimates"


def partners_of(name: str) -> str:
    return f"{HIDDEN}{name}_partners"


def statistic(name: str, bound: Bound) -> Bound:
    """A running statistic of a sample, estimated from the tuples that were kept."""
    inner = bound.partials[0]
    column = inner.inputs[0] if inner.inputs else None
    weighed = Weighed(inner.where, column)
    return Bound((weighed,), pa.float64(), partial(_lower_statistic, name))


def _estimates(weighed: Weighed) -> Bound:
    kind = pa.struct([(name, pa.float64()) for name in weighed.names])
    return Bound((weighed,), kind, partial(_lower_estimates, weighed.names))


def _lower_kept(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((kept,),) = states
    return pa.array(kept)


def _lower_estimates(names: Sequence[str], states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    (fields,) = states
    return pa.StructArray.from_arrays([pa.array(each) for each in fields], names=list(names))


def _lower_statistic(name: str, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((count, mean, squares, *_),) = states
    if name == COUNT:
        return pa.array(np.rint(count))
    with np.errstate(divide="ignore", invalid="ignore"):
        return pa.array({MEAN: mean, VARIANCE: np.maximum(squares, 0) / np.maximum(count, 1)}[name])
