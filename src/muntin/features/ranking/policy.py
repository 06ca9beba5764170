"""`.top()`: the number of groups per window, and the aggregate that ranks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.aggregates.aggregate import Bound
from muntin.checks import flag, whole_number
from muntin.engine.features import Option
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError, suggest
from muntin.expressions import shown
from muntin.features.order import RANKING
from muntin.partials.values import is_fixed, is_ranked
from muntin.type_names import spark_name
from muntin.windows import PaneWindow, Window
from muntin.written import call, unlike

MOST_GROUPS = (1 << 31) - 1
"""Ranks are 32-bit integers."""


@dataclass(frozen=True)
class Top(Option):
    name = "top"
    order = RANKING

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

    @property
    def written(self) -> str:
        return call(".top", self.k, by=self.by, **unlike({"descending": self.descending}, {"descending": True}))

    @property
    def not_by_zone(self) -> str:
        return "it ranks the groups of a window, and every zone has windows of its own"

    def check(self, draft: Draft, complete: bool = False) -> None:
        self.check_groups(draft.windows, draft.keys)
        if draft.function is not None:
            raise MuntinError(
                "top() compares groups by an aggregate, and the query applies a function instead; use .agg(), or sort "
                "what the function returns."
            )
        if complete:
            self.check_aggregate(draft.aggregates)

    def plan(self, draft: Draft) -> Draft:
        from muntin.features.drift.feature import with_drift
        from muntin.features.ranking.feature import Ranking

        return with_drift(draft.with_feature(Ranking(self)))

    def explained(self, plan: Plan) -> list[str]:
        first = "largest" if self.descending else "smallest"
        lines = [
            f"Ranking: the first {self.k:,} group{'s' * (self.k != 1)} of each window by {self.by!r}, the {first} "
            f"first; ties by {', '.join(repr(shown(key)) for key in plan.keys)}."
        ]
        if not plan.schema.is_estimated:
            lines.append(f"  Every shard sends its first {self.k:,} of each window to one task, which ranks them.")
        else:
            lines.append(
                "  Every shard sends all groups of each window to one task, which ranks them: answers may have an "
                "error, and `quality` has the range of ranks of a group."
            )
        return lines

    def check_groups(self, windows: Sequence[Window], keys: Sequence[str]) -> None:
        """Reject windows that belong to a single key: only windows over time contain several groups."""
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
        """Reject an aggregate that is missing, or whose values have no order."""
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
