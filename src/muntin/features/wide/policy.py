"""`.wide()`: which queries have results that fit into one row per key and time."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.durations import describe
from muntin.engine.features import Option
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.features.order import WIDE
from muntin.features.wide.names import ends, suffix
from muntin.features.wide.rows import AS_OF, WideRows
from muntin.windows import PaneWindow, Window


@dataclass(frozen=True)
class Wide(Option):
    name = "wide"
    order = WIDE

    @property
    def written(self) -> str:
        return ".wide()"

    def check(self, draft: Draft, complete: bool = False) -> None:
        if draft.function is not None:
            raise MuntinError(
                "wide() has one row per key and time, and a function returns any number of rows for a window; use "
                ".agg(), or leave out wide()."
            )
        if draft.late_row is not None:
            raise MuntinError(
                "late('emit') emits rows without a window, which have no place in wide rows; leave it out, or write "
                "late rows with a query of their own."
            )
        for option in draft.options:
            if option.name in _APART:
                raise MuntinError(f"{_APART[option.name]}; leave out one of the two.")
        _check_windows(draft.windows)
        if complete:
            self._check_columns(draft.planned().plan())

    def _check_columns(self, plan: Plan) -> None:
        if plan.steps:
            raise MuntinError(
                "wide() meets the windows of a key in their shard, and an option of this query sends windows to other "
                "tasks; leave out one of the two."
            )
        names = WideRows(plan.schema).schema.names
        for position, name in enumerate(names):
            if name in names[:position]:
                raise MuntinError(
                    f"Two columns of the wide rows are called {name!r}; give an aggregate, a key or a window (with "
                    "name=) another name."
                )

    def finish(self, plan: Plan) -> WideRows:
        return WideRows(plan.schema)

    def explained(self, plan: Plan) -> list[str]:
        suffixes = ", ".join(f"_{suffix(window)}" for window in plan.windows)
        return [
            f"Wide: one row per key and end of windows, {AS_OF!r}; columns end in {suffixes}, and are null where the "
            "key had no row in the window."
        ]


_APART = {
    "updates": "emit('on_change') and late('update') emit windows one by one as they change, and wide() needs all "
    "windows of a key and time together",
    "top": "top() keeps other groups for every window, and wide() needs all windows of a key",
    "parallel": "parallel() spreads the windows of a key over workers, and wide() needs them together",
}
"""Options that do not go with wide rows, and why."""


def _check_windows(windows: tuple[Window, ...]) -> None:
    first = windows[0]
    for window in windows:
        if not isinstance(window, PaneWindow):
            raise MuntinError(
                f"wide() puts windows that end at the same time into one row, and those of {window.title!r} end with "
                "rows of their key; use W.sliding, W.tumbling, W.cumulative or W.calendar."
            )
        assert isinstance(first, PaneWindow)
        if ends(window) != ends(first):
            raise MuntinError(
                f"wide() puts windows that end at the same time into one row, but {first.title!r} and "
                f"{window.title!r} end at different times, so a null would not mean 'no rows'; give all windows the "
                f"same slide and offset, such as {_example(first, window)}. A finer slide costs no more but for its "
                "results."
            )
    suffixes = [suffix(window) for window in windows]
    for position, text in enumerate(suffixes):
        if text in suffixes[:position]:
            raise MuntinError(f"Two windows have the suffix {text!r} in wide rows; give one another name=.")


def _example(first: PaneWindow, second: PaneWindow) -> str:
    longer, shorter = sorted((first, second), key=lambda window: window.longest, reverse=True)
    step = min((length for window in (longer, shorter) for length in window.lengths), default=None)
    if step is None:
        return "W.calendar('7 days', '1 day') beside W.calendar('1 day')"
    return f"W.sliding({describe(longer.longest)!r}, {describe(step)!r})"
