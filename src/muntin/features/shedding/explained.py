"""`explain()`: what is shed."""

from __future__ import annotations

from muntin.durations import describe
from muntin.engine.hidden import is_hidden
from muntin.engine.plan import Plan
from muntin.features.shedding.plan import needs_tuples, sees_all
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.source import SourceShedding


def explained(policy: Shedding, plan: Plan) -> str:
    """How a query sheds."""
    if policy.at == "source":
        return _at_source(policy, plan)
    if policy.incremental and not needs_tuples(plan):
        return (
            "Shedding: nothing is shed, because panes answer every aggregate of this query from all rows. Dropping "
            "rows in the pane stage would save nothing. If the way of the rows to Python is too slow, shed before it, "
            "with rate=..., method='uniform' and at='source'."
        )
    bottleneck = ""
    if policy.target_latency is not None:
        rate = f"as many tuples as needed to keep batches within {describe(policy.target_latency)}"
        bottleneck = (
            " It cannot shorten the way of the rows to Python: if batches stay too long at the highest rate, shed "
            "before that, with rate=..., method='uniform' and at='source'."
        )
    elif policy.error is not None:
        rate = f"as many tuples as an error of {policy.error:.0%} allows"
    else:
        rate = f"{policy.rate:.0%} of the tuples"
    if policy.method == "uniform":
        what = "every tuple is kept with the same probability, so small groups may lose all of theirs"
    elif policy.error is not None:
        what = (
            "the values of every group of a pane are looked at first, and the group keeps as many as are needed, no "
            f"fewer than {policy.least}"
        )
    elif plan.keys:
        assert plan.over_time is not None, "only windows over time shed"
        panes = plan.grid.most_in(max(window.longest for window in plan.over_time.models))
        what = (
            "the groups of every pane are counted, and each keeps its share, small groups more than that, and no fewer "
            f"than {policy.least} tuples if it has them: with {panes:,} pane{'s' * (panes != 1)} per window, a group "
            f"in all of them keeps at least {policy.least * panes:,}"
        )
        if plan.function is not None and not plan.function.knows_weights:
            what += "; the function gets the window's share of them"
    else:
        what = "a sample of every pane is kept"
    of = "Answers are scaled back to all tuples"
    if policy.incremental and plan.outputs:
        exact = [output.name for output in plan.outputs if sees_all(output.bound, True) and not is_hidden(output.name)]
        if exact:
            of = (
                f"Panes answer {', '.join(exact)} from all tuples, exactly; other answers are scaled back to all tuples"
            )
    return (
        f"Shedding: {rate} are dropped before they are packed or shuffled; {what}. {of}, and `quality` has their "
        f"intervals of {policy.confidence:.0%} where there are honest ones.{bottleneck}"
    )


def _at_source(policy: Shedding, plan: Plan) -> str:
    """How a query sheds before its stages see any row."""
    feature = next(feature for feature in plan.features if isinstance(feature, SourceShedding))
    bounds = (
        f"intervals of {policy.confidence:.0%} for counts and quantiles, and one-sided ones for min and max"
        if feature.apart
        else "no interval but one-sided ones for min and max: this stream has nothing that tells equal rows of a batch "
        "apart, so they are kept or shed together. Parquet files have that, and so have columns called partition and "
        "offset, such as Kafka's"
    )
    return (
        f"Shedding: {policy.rate:.0%} of the rows are dropped at the source, before they are sent to Python. Nobody "
        "counts them. All answers are estimates from the kept rows, and so is quality.size; counts and sums are scaled "
        f"to all rows. `quality` has {bounds}. Groups and windows without a kept row are missing."
    )
