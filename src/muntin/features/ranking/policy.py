"""`.top()`: how many groups of each window are wanted, and what makes one better than another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.aggregates.aggregate import Bound
from muntin.checks import flag, whole_number
from muntin.errors import MuntinError, suggest
from muntin.partials.values import is_fixed, is_ranked
from muntin.type_names import spark_name
from muntin.windows import PaneWindow, Window

MOST_GROUPS = (1 << 31) - 1
"""Ranks are 32-bit integers."""


@dataclass(frozen=True)
class Top:
    k: int
    by: str
    """The aggregate that groups are compared by."""
    descending: bool

    @classmethod
    def of(cls, k: Any, by: Any, descending: Any) -> Top:
        most = whole_number(k, "k", MOST_GROUPS)
        if not isinstance(by, str) or not by:
            raise MuntinError(f"by must be the name of one of the query's aggregates, got {by!r}.")
        return cls(most, by, flag(descending, "descending"))

    def check_groups(self, windows: Sequence[Window], keys: Sequence[str]) -> None:
        """Whether windows have groups side by side: only those over time begin and end alike for all keys."""
        for window in windows:
            if not isinstance(window, PaneWindow):
                raise MuntinError(
                    f"top() compares the groups of a window, but each window of {window.title!r} belongs to a single "
                    "key; use W.tumbling, W.sliding or W.cumulative."
                )
        if not keys:
            raise MuntinError(
                "top() compares the groups of a window, and the query has none; name the key with by= in over()."
            )

    def check_aggregate(self, aggregates: Mapping[str, Bound]) -> None:
        """Whether the aggregate is there, and has an order."""
        if self.by not in aggregates:
            raise MuntinError(
                f"top(by={self.by!r}) is not one of the query's aggregates. {suggest(self.by, aggregates)}"
            )
        kind = aggregates[self.by].result
        if not (is_fixed(kind) or is_ranked(kind)):
            raise MuntinError(
                f"top(by={self.by!r}) is of type {spark_name(kind)}, whose values have no order here; rank by a "
                "number, a string, a boolean, a date or a time."
            )
