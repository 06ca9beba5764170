"""Aggregates that are computed and not emitted: what features need to know of windows."""

from __future__ import annotations

PREFIX = "__muntin_"
"""Before the names of columns that only Muntin sees."""
HIDDEN = PREFIX + "of_"
"""Before the names of those aggregates."""
SIZE = HIDDEN + "window"
"""How many tuples a window has."""


def is_hidden(name: str) -> bool:
    return name.startswith(HIDDEN)
