"""Hidden aggregates: features need them, and they are not emitted."""

from __future__ import annotations

PREFIX = "__muntin_"
"""The prefix of internal columns."""
HIDDEN = PREFIX + "of_"
"""The prefix of hidden aggregates."""
SIZE = HIDDEN + "window"
"""The hidden aggregate with the number of tuples of a window."""


def is_hidden(name: str) -> bool:
    return name.startswith(HIDDEN)
