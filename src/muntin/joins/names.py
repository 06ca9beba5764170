"""The column names of a join: those in the joined rows, and the internal ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from muntin.engine.hidden import PREFIX
from muntin.errors import MuntinError

SideName = Literal["left", "right"]
SIDES: tuple[SideName, SideName] = ("left", "right")

TIME = PREFIX + "time"
"""The event time of a tuple of either side, or the later event time of a pair."""
MARKS = PREFIX + "watermark"
"""What the watermark of a side follows, if rows of a side carry watermarks."""
SIDE_FLAGS: dict[SideName, str] = {"left": "__muntin_left", "right": "__muntin_right"}
"""The boolean columns that are true for the tuples of a side."""

WEIGHTS: dict[SideName, str] = {"left": "__muntin_left_weight", "right": "__muntin_right_weight"}
PLACES: dict[SideName, str] = {"left": "__muntin_left_place", "right": "__muntin_right_place"}
"""For pairs after shedding: the weights of the two tuples, and the numbers that identify them in their window."""


def other(side: SideName) -> SideName:
    return "right" if side == "left" else "left"


def joined_names(
    on: Sequence[str], left: Iterable[str], right: Iterable[str], folded: Callable[[str], str] = str.casefold
) -> dict[SideName, dict[str, str]]:
    """For each side, its non-key columns: a mapping from the name in the joined rows to the name in the side.

    A name that both sides have, or that a key has, is prefixed with the side. `folded` maps names that Spark does not
    distinguish, such as `fare` and `Fare`, to the same name.
    """
    columns: dict[SideName, list[str]] = {"left": list(left), "right": list(right)}
    shared = set.intersection(*({folded(name) for name in names} for names in columns.values()))
    keys = {folded(name) for name in on}
    names_of_side: dict[SideName, dict[str, str]] = {"left": {}, "right": {}}
    used = {folded(name): f"the key {name!r}" for name in on}
    for side in SIDES:
        for name in columns[side]:
            joined = f"{side}_{name}" if folded(name) in shared | keys else name
            if joined.startswith(PREFIX):
                raise MuntinError(f"{side}'s column {name!r} has a name that Muntin uses itself; rename it first.")
            if folded(joined) in used:
                raise MuntinError(
                    f"{side}'s column {name!r} is called {joined!r} in the joined rows, and so is "
                    f"{used[folded(joined)]}; rename one of them first."
                )
            used[folded(joined)] = f"{side}'s column {name!r}"
            names_of_side[side][joined] = name
    return names_of_side
