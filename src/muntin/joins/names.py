"""The columns of a join: what they are called in the joined rows, and those that only Muntin sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from muntin.engine.hidden import PREFIX
from muntin.errors import MuntinError

Which = Literal["left", "right"]
SIDES: tuple[Which, Which] = ("left", "right")

TIME = PREFIX + "time"
"""The event time of a tuple of either side; of a pair, the later of its two."""
MARKS: dict[Which, str] = {"left": "__muntin_left", "right": "__muntin_right"}
"""The boolean columns that say which side a tuple is of."""

WEIGHTS: dict[Which, str] = {"left": "__muntin_left_weight", "right": "__muntin_right_weight"}
PLACES: dict[Which, str] = {"left": "__muntin_left_place", "right": "__muntin_right_place"}
"""Of a pair, where tuples were shed: how many tuples each of its two stands for, and which one of its window it is."""


def other(which: Which) -> Which:
    return "right" if which == "left" else "left"


def joined_names(
    on: Sequence[str], left: Iterable[str], right: Iterable[str], folded: Callable[[str], str] = str.casefold
) -> dict[Which, dict[str, str]]:
    """Of each side, its columns other than the keys: their names in the joined rows, and their own.

    Names that both sides have, or that a key has, get the side in front. `folded` makes names equal that Spark does
    not tell apart, such as `fare` and `Fare`.
    """
    own: dict[Which, list[str]] = {"left": list(left), "right": list(right)}
    shared = set.intersection(*({folded(name) for name in names} for names in own.values()))
    keys = {folded(name) for name in on}
    result: dict[Which, dict[str, str]] = {"left": {}, "right": {}}
    taken = {folded(name): f"the key {name!r}" for name in on}
    for which in SIDES:
        for name in own[which]:
            joined = f"{which}_{name}" if folded(name) in shared | keys else name
            if joined.startswith(PREFIX):
                raise MuntinError(f"{which}'s column {name!r} has a name that Muntin uses itself; rename it first.")
            if folded(joined) in taken:
                raise MuntinError(
                    f"{which}'s column {name!r} is called {joined!r} in the joined rows, and so is "
                    f"{taken[folded(joined)]}; rename one of them first."
                )
            taken[folded(joined)] = f"{which}'s column {name!r}"
            result[which][joined] = name
    return result
