"""`explain()`: what is shed."""

from __future__ import annotations

from muntin.durations import describe
from muntin.engine.plan import Plan
from muntin.features.shedding.policy import Shedding


def explained(policy: Shedding, plan: Plan) -> str:
    """How a query sheds."""
    if policy.target_latency is not None:
        rate = f"as many tuples as needed to keep batches within {describe(policy.target_latency)}"
    else:
        rate = f"{policy.rate:.0%} of the tuples"
    if policy.method == "uniform":
        what = "every tuple is kept with the same probability, so small groups may lose all of theirs"
    elif plan.keys:
        assert plan.over_time is not None, "only windows over time shed"
        panes = max(window.longest for window in plan.over_time.models) // plan.grid.length
        what = (
            "the groups of every pane are counted, and each keeps its share, small groups more than that, and no fewer "
            f"than {policy.least} tuples if it has them: with {panes:,} pane{'s' * (panes != 1)} per window, a group "
            f"in all of them keeps at least {policy.least * panes:,}"
        )
        if plan.function is not None and not plan.function.knows_weights:
            what += "; the function gets the window's share of them"
    else:
        what = "a sample of every pane is kept"
    return (
        f"Shedding: {rate} are dropped before they are lifted or shuffled; {what}. Answers are scaled back to all "
        f"tuples, and `quality` has their intervals of {policy.confidence:.0%}."
    )
