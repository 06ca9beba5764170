"""Errors that say where in a statement they are."""

from __future__ import annotations

from typing import NoReturn

from muntin.errors import MuntinError


def refuse(text: str, at: int, why: str, cause: Exception | None = None) -> NoReturn:
    """Raise an error with the line and the column of a place in the text, and what is there."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    here = text[at : at + 40].splitlines()
    raise MuntinError(f"line {line}, column {column}, at {here[0] if here else 'the end'!r}: {why}") from cause
