"""`.emit("on_change")` and `.late("update")`: when rows of a window are emitted, and how long it stays correctable."""

from __future__ import annotations

from dataclasses import dataclass, replace

from muntin.checks import one_of
from muntin.durations import Duration, describe, positive_microseconds
from muntin.engine.features import Option
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.features.order import UPDATES
from muntin.windows import CountWindow, DeltaWindow, PaneWindow, SessionWindow, SlideByTime, Window
from muntin.windows.model import forgetting
from muntin.written import call

MODES = {"on_close": "once, when the window closes", "on_change": "also while it is open, whenever it has changed"}


@dataclass(frozen=True)
class Updates(Option):
    """The validated arguments of both calls."""

    name = "updates"
    order = UPDATES

    on_change: bool = False
    every: int | None = None
    """The shortest processing time between two early rows, in microseconds; None for a row per batch."""
    within: int | None = None
    """How long windows stay correctable after their end, in microseconds; None if late rows do not count."""

    def with_emission(self, mode: str, every: Duration | None, streaming: bool) -> Updates:
        """The same with the arguments of `emit()`."""
        one_of(mode, "emit's mode", MODES)
        if every is None:
            return replace(self, on_change=mode == "on_change", every=None)
        if mode == "on_close":
            raise MuntinError(
                f"every={every!r} limits how often open windows are emitted, and 'on_close' emits none; use "
                "emit('on_change', every=...), or leave it out."
            )
        length = positive_microseconds(every, "every")
        if not streaming:
            raise MuntinError(
                f"every={every!r} is a time between batches, and the data are a table, which has one; leave it out."
            )
        return replace(self, on_change=True, every=length)

    def with_corrections(self, within: Duration | None) -> Updates:
        """The same with the arguments of `late("update")`."""
        if within is None:
            raise MuntinError(
                "late('update') needs within=, how long windows stay correctable after their end, such as "
                "within='1 hour'. Their panes are kept for as long."
            )
        return replace(self, within=positive_microseconds(within, "within"))

    @property
    def is_needed(self) -> bool:
        """Whether the query does more than to emit windows once, when they close."""
        return self.on_change or self.within is not None

    @property
    def written(self) -> str:
        every = {} if self.every is None else {"every": describe(self.every)}
        emission = call(".emit", "on_change", **every) if self.on_change else ""
        return emission + ("" if self.within is None else call(".late", "update", within=describe(self.within)))

    @property
    def what(self) -> str:
        """The call that asks for updates, for messages."""
        return "emit('on_change')" if self.on_change else "late('update')"

    def check(self, draft: Draft, complete: bool = False) -> None:
        if draft.function is not None:
            raise MuntinError(
                f"{self.what} emits a row again when it has changed, and a function returns any number of rows for a "
                "window, so that none replaces another; use .agg() for windows that change."
            )
        for window in draft.windows:
            self._check_window(window)
        self._check_workers(draft)
        over_tuples = next((window for window in draft.windows if not isinstance(window, PaneWindow)), None)
        if over_tuples is not None and any(option.name == "shed" for option in draft.options):
            raise MuntinError(
                f"shed() scales the answers of windows over time back while they are open, and those of "
                f"{over_tuples.title} only when they close; leave out {self.what} or shed()."
            )
        for option, reason in _APART.items():
            if any(other.name == option for other in draft.options):
                raise MuntinError(f"{option}() {reason}, so it does not go with {self.what}; leave one of them out.")

    def _check_window(self, window: object) -> None:
        if isinstance(window, CountWindow) and window.max_wait is not None:
            raise MuntinError(
                f"max_wait emits parts of count windows when their key pauses, and {self.what} emits them whenever "
                "they change; leave out one of the two."
            )
        if isinstance(window, Window) and forgetting(window) is not None:
            raise MuntinError(
                f"forget_after lets the numbers of a key's windows begin anew after a pause, and {self.what} tells the "
                "rows of a window by its number, which a late row in the pause would change; leave out one of the two."
            )
        if isinstance(window, SlideByTime):
            raise MuntinError(
                f"{self.what} keeps a window until no row can change it, and a window of slide_by_time is repeated "
                "until its key has another row, which may never come; use W.count or W.slide_by_tuple."
            )

    def _check_workers(self, draft: Draft) -> None:
        if any(getattr(option, "model", None) == "agnostic" for option in draft.options):
            raise MuntinError(
                f"The agnostic model hands out windows as they close, and {self.what} emits them before or after that, "
                "too; use parallel(model='active') or 'keyed'."
            )

    def plan(self, draft: Draft) -> Draft:
        from muntin.features.updates.feature import Updating

        self._check_workers(draft)  # "auto" is resolved by now
        kept = 0 if self.within is None or not draft.streaming else self.within
        retracts = any(isinstance(window, SessionWindow | DeltaWindow) for window in draft.windows)
        draft = draft.with_feature(Updating(self, retracts))
        return replace(draft, correctable=kept, answers_all_windows=False)

    def explained(self, plan: Plan) -> list[str]:
        lines = []
        if self.on_change:
            often = "in each batch" if self.every is None else f"at most once in {describe(self.every)}"
            lines.append(f"Updates: {often}, a row for every window and key that has changed since its last row.")
        else:
            lines.append("Updates: a row for every window and key when it closes, and after that when it has changed.")
        if self.within is not None:
            lines.append(
                f"  Late rows still count for {describe(self.within)} after the end of a window; the state keeps its "
                "panes for as long."
            )
        copies = max((window.copies for window in plan.windows if isinstance(window, PaneWindow)), default=1)
        if self.on_change and copies > 1:
            lines.append(f"  A row of the input changes up to {copies:,} windows of its key.")
        return lines


_APART = {
    "top": "compares all groups of a window, and a batch of updates has only those that have changed",
    "approximate": "answers from samples that are drawn for windows as they close",
}
"""Options that do not go with updates, and why."""
