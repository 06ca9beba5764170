"""The choice of the worker model: figure 7 of the paper, extended by the number of keys and their skew.

    forward-context-aware windows            -> agnostic
    forward-context-free, incremental        -> active
    forward-context-free, non-incremental    -> agnostic, or active

With many keys of similar size neither is needed: spreading keys copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from muntin.errors import MuntinError
from muntin.features.workers.policy import Model, Parallel, Workers
from muntin.windows import PaneWindow, Window

KEYS_PER_WORKER = 4
"""With fewer keys per worker, some workers would get twice the load of others."""
TASKS_PER_WORKER = 2
"""More tasks than cores, so that a free core takes the next one; few more, because every task has a cost."""


def choose(
    parallel: Parallel,
    windows: Sequence[Window],
    *,
    keyed: bool,
    incremental: bool,
    approximate: bool,
    cores: int,
) -> Workers:
    """`incremental`: partial results answer every window; `approximate`: samples may."""
    check(parallel, windows, approximate=approximate)
    model, why = _model(parallel, windows, keyed, incremental, approximate, parallel.workers or cores)
    count = parallel.workers or cores
    batch = parallel.batch or (_batch(windows) if incremental else 1)
    # Fewer workers than cores are a request to use less: then there are no extra tasks.
    tasks = count if count < cores else count * TASKS_PER_WORKER
    return Workers(model, count, batch if model == "active" else 1, tasks, parallel.ordered, why)


def check(parallel: Parallel, windows: Sequence[Window], *, approximate: bool) -> None:
    """Reject a model that cannot run these windows."""
    aware = _aware(windows)
    if parallel.model == "active" and aware is not None:
        raise MuntinError(
            f"The active model sends every tuple, as soon as it arrives, to the workers whose windows contain it. The "
            f"windows of {aware.title} are forward-context-aware: which of them contain a tuple depends on later "
            "tuples. Use model='agnostic', or 'auto'."
        )
    if parallel.model == "agnostic" and approximate:
        raise MuntinError(
            "The agnostic model sends windows with all their tuples to free workers, and approximate() answers from "
            "samples, which stay in their shard. Use model='active' or 'keyed', or leave out approximate()."
        )


def _model(
    parallel: Parallel, windows: Sequence[Window], keyed: bool, incremental: bool, approximate: bool, workers: int
) -> tuple[Model, str]:
    if parallel.model != "auto":
        return parallel.model, "as requested"
    enough = keyed and (parallel.keys is None or parallel.keys >= KEYS_PER_WORKER * workers)
    if enough and not parallel.skewed:
        known = "assumed to be many (give keys= if they are few)" if parallel.keys is None else f"{parallel.keys:,}"
        return "keyed", f"the keys are {known} and not skewed, so they keep all workers busy"
    if not keyed:
        reason = "there is only one group"
    elif not enough:
        reason = f"there are only {parallel.keys:,} keys for {workers} workers"
    else:
        reason = "a few keys have most of the tuples"
    aware = _aware(windows)
    numbered = next((window for window in windows if not isinstance(window, PaneWindow)), None)
    if approximate:
        if aware is not None:
            return "keyed", f"{reason}, but the samples that answer {aware.title} stay with their key"
        return "active", f"{reason}, and samples stay with the worker of their window"
    if aware is not None:
        return "agnostic", f"{reason}, and {aware.title} is forward-context-aware"
    if incremental and numbered is None:
        return "active", f"{reason}, all windows are forward-context-free, and partial results answer them"
    if numbered is not None:
        return "agnostic", f"{reason}, and a tuple's windows of {numbered.title} are unknown until it is finalized"
    return "agnostic", f"{reason}, and windows that need the rows themselves differ in cost: any free worker takes one"


def _aware(windows: Sequence[Window]) -> Window | None:
    return next((window for window in windows if window.forward_context == "aware"), None)


def _batch(windows: Sequence[Window]) -> int:
    """As many consecutive windows as overlap: then at most twice the panes are sent, whatever the overlap."""
    return max((window.copies for window in windows if isinstance(window, PaneWindow)), default=1)
