"""The errors and warnings of Muntin."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MuntinError(Exception):
    """The base class of all errors of a query, its data or its state. The message says what to do."""


class StateError(MuntinError):
    """The state in the checkpoint cannot be used by this query."""


class MuntinWarning(UserWarning):
    """A warning about a running query."""


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown `name`: the closest known names, or all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return "Did you mean " + " or ".join(repr(match) for match in close) + "?"
    return "There are: " + ", ".join(repr(candidate) for candidate in known) + "."
