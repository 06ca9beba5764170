"""The hidden aggregates of a query that sheds, and the check whether a query can shed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Bound, Dictionaries
from muntin.arrays import State
from muntin.engine.hidden import HIDDEN
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.features.shedding.corrections import Missing, Surplus
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.registry import scaled_of
from muntin.features.shedding.required import Required
from muntin.features.shedding.scaled import Measure
from muntin.features.shedding.weighed import WeighedCount, WeighedMoments
from muntin.holistic.quantiles import Quantiles
from muntin.panes.grid import PaneGrid
from muntin.partials.custom import CustomPartial
from muntin.partials.partial import Partial
from muntin.statistics.running import COUNT, MEAN
from muntin.windows import PaneWindow, Window

MISSING = HIDDEN + "missing"
"""The number of shed tuples."""
SURPLUS = HIDDEN + "surplus"
"""By how many tuples the weights of the kept ones exceed the number of tuples, after uniform shedding."""


def needs_tuples(plan: Plan) -> bool:
    """Whether anything in a query needs the tuples themselves. If not, panes answer it, and nothing is shed."""
    layout = plan.layout
    return layout.tuples is not None or any(leaf_set.per_tuple for leaf_set in layout.leaf_sets)


def keeps_each_tuple(bound: Bound) -> bool:
    """Whether the state of an aggregate is one partial per tuple, as that of functions that do not commute."""
    return any(isinstance(partial, CustomPartial) and not partial.commutative for partial in bound.partials)


def sees_all(bound: Bound, incremental: bool) -> bool:
    """Whether an aggregate sees all tuples: panes answer it."""
    return incremental and bound.holistic is None and not keeps_each_tuple(bound)


def check(windows: Sequence[Window], aggregates: Mapping[str, Bound], incremental: bool) -> None:
    """Raise an error if a query cannot shed. With `incremental`, aggregates that panes answer see all tuples."""
    for window in windows:
        if not isinstance(window, PaneWindow):
            raise MuntinError(
                f"shed() is for windows over time, and {window.title!r} depends on its tuples: without some of them, "
                "its windows would be others. Use W.tumbling, W.sliding or W.cumulative, or leave shed() out."
            )
    for name, bound in aggregates.items():
        if bound.holistic is not None:
            can_shed = bound.holistic.takes_weights
        else:
            can_shed = sees_all(bound, incremental) or scaled_of(bound.aggregate, bound) is not None
        if not can_shed:
            raise MuntinError(
                f"{name} cannot be computed under shed(): it returns single tuples, or depends on all of them, and any "
                "of them may have been dropped, so it cannot be estimated. Leave it out, or compute it in a separate "
                "query without shed()."
            )


def check_beside(draft: Draft) -> None:
    """Raise an error for options that need to know every tuple, or every group, of a window."""
    reasons = {
        "approximate": "approximate() samples windows of which every row is known, and shed(at='source') drops rows "
        "before they are counted; shed at='panes', or leave approximate() out.",
        "top": "top() needs all groups of a window, and shed(at='source') may drop all rows of a group, which no rank "
        "would then know of; shed at='panes', or sort the results yourself.",
    }
    for option in draft.options:
        if option.name in reasons:
            raise MuntinError(reasons[option.name])


def hidden(aggregates: Mapping[str, Bound], policy: Shedding) -> dict[str, Bound]:
    """The hidden aggregates: the missing tuples, and the estimates of every aggregate that sees only kept tuples."""
    bounds = {MISSING: _in_states(Missing(None))}
    if policy.is_uniform:
        bounds[SURPLUS] = _in_states(Surplus(None))
    for name, bound in aggregates.items():
        scaled = None if policy.incremental else scaled_of(bound.aggregate, bound)
        if scaled is None or scaled.measure is None or scaled.is_known or name.startswith(HIDDEN):
            continue
        bounds[estimates_of(name)] = _in_states(*scaled.partials(bound.partials))
    return bounds


def required(draft: Draft, policy: Shedding) -> Required | None:
    """What the policy's error requires of every group; raises an error if it is not known for an aggregate."""
    if policy.error is None:
        return None
    if draft.function is not None:
        raise MuntinError(
            "shed(error=...) finds the rate from what is known of aggregates, and nothing is known of a function or of "
            "the pairs of a join; give a rate, or target_latency."
        )
    totals, ranked, ranks = [], [], 1
    for name, bound in draft.aggregates.items():
        scaled = scaled_of(bound.aggregate, bound)
        if isinstance(bound.holistic, Quantiles):
            ranked.append(Measure(bound.holistic.where, bound.holistic.column))
            ranks = max(ranks, len(bound.holistic.probabilities))
        elif sees_all(bound, policy.incremental) or (scaled is not None and scaled.kind == "count"):
            continue
        elif scaled is not None and scaled.kind in ("sum", "mean") and scaled.measure is not None:
            totals.append(scaled.measure)
        else:
            raise MuntinError(
                f"shed(error=...) cannot tell how many rows {name} needs: there are rules for sums, means and "
                "quantiles. Give a rate instead, or compute it in another query."
            )
    windows = [window for window in draft.windows if isinstance(window, PaneWindow)]
    panes = PaneGrid.of(windows).most_in(max(window.longest for window in windows))
    return Required(policy.error, policy.confidence, tuple(totals), tuple(ranked), ranks, panes)


def estimates_of(name: str) -> str:
    return f"{HIDDEN}{name}_estimates"


def statistic(name: str, bound: Bound) -> Bound:
    """A running statistic of a sample, estimated from the kept tuples."""
    inner = bound.partials[0]
    column = inner.inputs[0] if inner.inputs else None
    if name == COUNT:
        return Bound((WeighedCount(inner.where, column),), pa.float64(), _lower_count)
    assert column is not None, "moments are those of a column"
    return Bound((WeighedMoments(inner.where, column),), pa.float64(), partial(_lower_moment, name))


def _in_states(*partials: Partial) -> Bound:
    """An aggregate that is read as states, because one answer cannot express it."""
    return Bound(partials, pa.null(), _lower_no_states)


def _lower_no_states(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    raise TypeError("estimates are made of states as they are")


def _lower_count(states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((count,),) = states
    return pa.array(np.rint(count))


def _lower_moment(name: str, states: Sequence[State], dictionaries: Dictionaries) -> pa.Array:
    ((count, mean, squares),) = states
    return pa.array(mean if name == MEAN else np.maximum(squares, 0) / np.maximum(count, 1))
