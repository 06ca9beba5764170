"""`explain()`: how a query will run, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muntin.durations import describe
from muntin.engine.operators.delta import DeltaFamily
from muntin.engine.operators.operator import Family
from muntin.engine.operators.ordered import OrderedFamily
from muntin.engine.operators.session import SessionFamily
from muntin.engine.operators.time import TimeFamily
from muntin.expressions import shown
from muntin.features.compression.policy import Compression
from muntin.features.ranking.policy import Top
from muntin.features.sampling.plan import SamplingPlan
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.strata import LEAST
from muntin.holistic.applied import Applied
from muntin.panes.tuples import MEMBERSHIP, WEIGHT
from muntin.plan import Plan
from muntin.query import Query
from muntin.sizes import describe_size
from muntin.volume import Volume, kept_panes, leaf_bytes, state_warnings
from muntin.windows import CountWindow, PaneWindow, TupleWindow, Window


def explanation(query: Query) -> str:
    plan = query.plan(shards=[0])
    lines = [
        f"Muntin: {'stream' if query.source.streaming else 'table'}, windows over {shown(query.time)!r}"
        + (f" per {', '.join(map(repr, query.named_keys))}" if query.by else ", one group"),
    ]
    for family in plan.families:
        lines += ["", *_DESCRIBED[type(family)](family, query)]
        for _, window in family.windows:
            context = f"forward-context-{window.forward_context}"
            lines.append(f"  {window.title}: {_share(window, family)}{context}; {window.extent_formula}")
    lines += [
        "",
        "Tree: flat, one array for all keys of a shard, leaves sorted by (key, pane); a window is a range of leaves.",
        *_workers(query, plan),
    ]
    if plan.keeps_chunks:
        lines += ["", *_whole(plan)]
    if plan.sampling is not None:
        lines += ["", *_approximation(plan.sampling)]
    if plan.shedding is not None:
        lines += ["", shedding(plan.shedding, plan)]
    if plan.top is not None:
        lines += ["", *_ranking(plan, plan.top)]
    if plan.measures_drift:
        lines += ["", "Drift: muntin.progress(query) tells the overlap and the distance of neighbouring windows."]
    volume = Volume.of(plan.windows)
    lines += ["", *([] if volume is None else [volume.told]), *_spark(plan)]
    if query.source.streaming:
        lines.append(f"Watermark: {describe(query.watermark or 0)} behind the latest row; {late_rows(query)}")
    found = [] if volume is None else volume.warnings(plan.windows)
    if plan.over_time is not None:
        delay = query.watermark or 0
        found += state_warnings(plan.over_time, delay, keyed=bool(plan.keys), keeps_rows=plan.keeps_chunks)
    return "\n".join([*lines, *([""] if found else []), *found])


def _workers(query: Query, plan: Plan) -> list[str]:
    if query.parallelism is None:
        few = "" if plan.keys else ", and there is only one; .parallel() spreads windows over all cores"
        return [f"Workers: keyed; every key belongs to one shard{few}."]
    from muntin.spark.session import most_workers  # only what is bound to a session knows how many

    workers = query.workers(lambda: most_workers(query.source.frame.sparkSession))
    count = f"{workers.count} worker{'s' * (workers.count != 1)}"
    lines = [f"Workers: {workers.model}, {count}; {workers.why}."]
    if workers.model == "active":
        whose = "Window i belongs to worker i mod n"
        if workers.batch > 1:
            whose = f"Windows are dealt out {workers.batch:,} consecutive ones at a time"
        lines.append(f"  {whose}; panes go to the workers whose windows hold them, and to no other.")
        if not all(isinstance(window, PaneWindow) for window in plan.windows):
            lines.append("  Tuples that are to be numbered, or to make a session, go to all of them.")
    elif workers.model == "agnostic":
        lines.append(
            f"  Windows that are complete become jobs, runs of consecutive windows with their chunks; up to "
            f"{workers.tasks} tasks compute them, each as soon as a core is free."
        )
    if workers.ordered:
        lines.append("  Results of a batch are put in one order, by one task.")
    return lines


def late_rows(query: Query) -> str:
    ahead = ""
    if query.max_ahead is not None:
        ahead = (
            f" So are rows more than {describe(query.max_ahead)} ahead of the clock, which do not move the watermark."
        )
    return (
        "a row is late only for the windows that have closed. Rows too late for all of them are "
        f"{_LATE[query.late_policy]}.{ahead}"
    )


def _whole(plan: Plan) -> list[str]:
    assert plan.layout.tuples is not None
    names = [shown(name) for name in plan.layout.tuples.names if name not in (MEMBERSHIP, WEIGHT)]
    length = plan.chunk_length
    stretch = "many tuples" if length is None else describe(length)
    needed = [output.name for output in plan.outputs if output.bound.whole is not None]
    why = "the function that is applied" if plan.applied is not None else ", ".join(map(repr, needed))
    return [
        f"Whole windows: {why} needs the tuples themselves. They are kept as chunks of {stretch}, sorted by (key, "
        f"time), with {', '.join(map(repr, names)) or 'no column'} beside key and time, until the last window over "
        "them has closed." + ("" if plan.applied is not None else " All other aggregates use the tree."),
        compression(plan.compression),
    ]


def _approximation(sampling: SamplingPlan) -> list[str]:
    policy = sampling.policy
    if not sampling.estimators:
        return [
            "Approximation: none is needed. All aggregates are answered from partial results, exactly, and `quality` "
            "says incremental."
        ]
    names = ", ".join(map(repr, sampling.estimators))
    if sampling.hopeless:
        least = max(estimator.least(policy) for estimator in sampling.estimators.values())
        return [
            f"Approximation: none. An error of {policy.error:g} with a confidence of {policy.confidence:g} takes "
            f"{least:,} tuples, many times the budget, so that every window is answered exactly."
        ]
    if policy.is_auto:
        budget = "as many tuples as the error allows for, found from what the data are like"
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
        f"{policy.confidence:g}, and exactly where it is not. Chunks are read only then.",
    ]
    for name, estimator in sampling.estimators.items():
        lines.append(f"  {name}: {estimator.explained(policy)}")
    return lines


def shedding(policy: Shedding, plan: Plan) -> str:
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
        if isinstance(plan.applied, Applied):
            what += ", of which the function gets the window's share"
    else:
        what = "of every pane a sample is kept"
    return (
        f"Shedding: {rate}, before they are lifted or sent; {what}. Answers are scaled back to all tuples, and "
        f"`quality` has their intervals of {policy.confidence:.0%}."
    )


def _ranking(plan: Plan, top: Top) -> list[str]:
    first = "largest" if top.descending else "smallest"
    lines = [
        f"Ranking: the first {top.k:,} group{'s' * (top.k != 1)} of each window by {top.by!r}, the {first} first; "
        f"equal ones by {', '.join(repr(shown(key)) for key in plan.keys)}."
    ]
    if plan.quality_type is None:
        lines.append(f"  Every shard sends its first {top.k:,} of each window to one task, which ranks them.")
    else:
        lines.append(
            "  Every shard sends all groups of each window to one task, which ranks them: answers may have an error, "
            "and `quality` says between which places a group may be."
        )
    return lines


def compression(policy: Compression) -> str:
    level = "" if policy.level is None else f" at level {policy.level}"
    if policy.memory is not None:
        return (
            f"Compression: {policy.codec}{level}, of the oldest chunks first and of as many as keep them within "
            f"{describe_size(policy.memory)} of memory; beyond that the oldest are left to the state alone."
        )
    if policy.after is None:
        return "Compression: none; .compress(after=...) or .compress(memory=...) trades time for memory."
    when = "as soon as it is complete" if policy.after == 0 else f"{describe(policy.after)} after its last tuple"
    return f"Compression: {policy.codec}{level}, of a chunk {when} (D = {describe(policy.after)})."


def _over_time(family: TimeFamily, query: Query) -> list[str]:
    return over_time(family, query.watermark or 0)


def over_time(family: TimeFamily, delay: int) -> list[str]:
    """What panes there are, and how many of them a key keeps."""
    length = family.grid.length
    widest = max(window.longest for window in family.models)
    kept, leaf = kept_panes(family, delay), leaf_bytes(family)
    lines = [
        f"Panes of {describe(length)}, shared by all windows over time: a key with data in every pane keeps {kept:,} "
        f"panes of {leaf} bytes, about {describe_size(kept * leaf)}; keys with less data keep less. "
        f"{max(1, (widest // length - 1).bit_length())} levels of the tree answer every window."
    ]
    if any(leaf_set.per_tuple for leaf_set in family.leaf_sets):
        lines.append(
            "A custom aggregate that is not commutative also keeps each tuple's lifted state until its last window "
            "has closed; say commutative=True if the order does not matter."
        )
    return lines


def _over_sessions(family: SessionFamily, query: Query) -> list[str]:
    what = (
        "each tuple of an open session, as an aggregate needs their order"
        if family.leaf_set.per_tuple
        else (f"{leaf_bytes(family)} bytes for each session that is open")
    )
    return [f"Sessions: a key keeps {what}. Tuples go to the window stage as they are."]


def _over_settled(family: OrderedFamily, query: Query) -> list[str]:
    panes = f"panes of {family.pane:,} tuples" if family.pane > 1 else "a leaf for each tuple"
    return [
        f"Settled tuples, {panes} of {leaf_bytes(family)} bytes: tuples go to the window stage as they are and wait "
        "there until they are settled; then their order is final, with equal times in the order of their values. "
        "The last leaf of every key is kept for ever."
    ]


def _over_delta(family: DeltaFamily, query: Query) -> list[str]:
    return [
        f"Settled tuples whose {family.window.column!r} has not decreased, a leaf of {leaf_bytes(family)} bytes for "
        "each; the others are counted as bad rows and set aside. The last leaf of every key is kept for ever."
    ]


_DESCRIBED: dict[type[Family], Callable[[Any, Query], list[str]]] = {
    TimeFamily: _over_time,
    SessionFamily: _over_sessions,
    OrderedFamily: _over_settled,
    DeltaFamily: _over_delta,
}


def _share(window: Window, family: Family) -> str:
    """How many leaves a window is answered from, where that is known beforehand."""
    if isinstance(window, PaneWindow) and isinstance(family, TimeFamily):
        panes = window.longest // family.grid.length
    elif isinstance(window, CountWindow) and isinstance(family, OrderedFamily):
        panes = window.size // family.pane
    else:
        return ""
    return f"{panes:,} pane{'s' * (panes != 1)} per window, "


def _spark(plan: Plan) -> list[str]:
    """What plain Spark would have done."""
    lines = []
    over_time = plan.over_time
    if over_time is not None:
        copies = sum(window.copies for window in over_time.models)
        queries = len(over_time.models)
        lines.append(
            f"Plain Spark would copy every row {copies:,} time{'s' * (copies != 1)}"
            + (f", in {queries} queries" if queries > 1 else "")
            + "; Muntin touches it once."
        )
    if any(isinstance(window, TupleWindow) for window in plan.windows):
        lines.append("Plain Spark has no windows over tuples of a stream.")
    return lines


_LATE = {"drop": "counted and dropped", "emit": "counted and emitted in the column 'late'"}
