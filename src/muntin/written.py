"""Values as a user would write them, for the `repr` of windows, aggregates and queries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

_LONGEST = 60
"""Longer texts are cut, to keep a `repr` readable."""
_MOST = 6
"""Further items of a list are left out."""
_COLUMN = re.compile(r"Column<'(.*)'>", re.DOTALL)


def call(function: str, *arguments: object, **named: object) -> str:
    """A function call: `sliding("15 minutes", "5 minutes", offset="1 minute")`."""
    shown = [written(value) for value in arguments] + [f"{name}={written(value)}" for name, value in named.items()]
    return f"{function}({', '.join(shown)})"


def written(value: object) -> str:
    """One argument. Functions are shown by name, Spark columns by their expression."""
    if isinstance(value, str):
        short = value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"
        return json.dumps(short, ensure_ascii=not short.isprintable())
    if isinstance(value, list | tuple):
        ellipsis = ["…"] if len(value) > _MOST else []
        return f"[{', '.join([*map(written, value[:_MOST]), *ellipsis])}]"
    column = _COLUMN.fullmatch(str(value))
    if column is not None:
        return written(column[1])
    if callable(value):  # its address means nothing and differs from run to run
        return str(getattr(value, "__name__", type(value).__name__))
    return str(value)


def unlike(values: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    """The arguments that differ from their defaults."""
    return {name: value for name, value in values.items() if name not in defaults or value != defaults[name]}


def defaults(policy: type[Any]) -> dict[str, object]:
    """What the fields of a dataclass are by default."""
    return {field.name: field.default for field in fields(policy)}
