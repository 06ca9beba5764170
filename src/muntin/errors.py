"""The one family of errors that Muntin raises."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MuntinError(Exception):
    """Something is wrong with a query, its data or its state; the message says what to do."""


class StateError(MuntinError):
    """The state in the checkpoint cannot be used by this query."""


class MuntinWarning(UserWarning):
    """Something about a running query that its user would want to know."""


def suggest(name: str, known: Iterable[str]) -> str:
    """A sentence for an unknown `name`: the likeliest known ones, or all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return "Did you mean " + " or ".join(repr(match) for match in close) + "?"
    return "There are: " + ", ".join(repr(each) for each in known) + "."
