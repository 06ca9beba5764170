"""`explain()`: what is shed."""

from __future__ import annotations

from muntin.durations import describe
from muntin.engine.plan import Plan
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.strata import LEAST


def explained(policy: Shedding, plan: Plan) -> str:
    """How a query sheds."""
    if policy.target_latency is not None:
        rate = f"as many tuples as it takes to keep batches within {describe(policy.target_latency)}"
    else:
        rate = f"{policy.rate:.0%} of the tuples"
    if policy.method == "uniform":
        what = "all tuples have the same chance to be kept, so that of small groups there may be none"
    elif plan.keys:
        assert plan.over_time is not None, "only windows over time shed"
        panes = max(window.longest for window in plan.over_time.models) // plan.grid.length
        what = (
            "the groups of every pane are counted, and of each its share is kept, more than that of small ones and no "
            f"fewer than {LEAST} if there are as many: with {panes:,} pane{'s' * (panes != 1)} to a window, "
            f"{LEAST * panes:,} of a group that is in all of them"
        )
        if plan.function is not None and not plan.function.knows_weights:
            what += ", of which the function gets the window's share"
    else:
        what = "of every pane a sample is kept"
    return (
        f"Shedding: {rate}, before they are lifted or sent; {what}. Answers are scaled back to all tuples, and "
        f"`quality` has their intervals of {policy.confidence:.0%}."
    )
