"""Checks of arguments. The type comes first, since NumPy and pandas values do not compare with everything."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeGuard

import numpy as np

from muntin.errors import MuntinError


def one_of(value: object, argument: str, choices: Mapping[str, str]) -> str:
    """Check that a value is one of the choices, which map each string to its meaning, or to "" if it is obvious."""
    if isinstance(value, str) and value in choices:
        return value
    *others, last = (f"{name!r}, {meaning}" if meaning else repr(name) for name, meaning in choices.items())
    close = difflib.get_close_matches(value.lower(), choices, n=1) if isinstance(value, str) else []
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise MuntinError(f"{argument} is {value!r}; it can be {', '.join(others)} or {last}.{hint}")


def flag(value: object, argument: str) -> bool:
    if not isinstance(value, bool):
        raise MuntinError(f"{argument} must be True or False, got {value!r}.")
    return value


def encodable(text: str, argument: str) -> str:
    """Check that text can be encoded. Spark and Arrow do not explain why half of a surrogate pair fails."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MuntinError(
            f"{argument} is {text!r}, which has half of a surrogate pair at place {error.start} and is no text that "
            "can be written; take it out, or decode the text that it came from anew."
        ) from error
    return text


def is_integer(value: object) -> TypeGuard[int | np.integer[Any]]:
    """Whether a value is a Python or NumPy integer; a NumPy timedelta is not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def whole_number(value: object, argument: str, most: int, optional: bool = False) -> int:
    """Check that a value is an integer from 1 to `most`; NumPy integers are accepted."""
    if is_integer(value) and 1 <= value <= most:
        return int(value)
    limit = f" to {most:,}" if is_integer(value) and value > most else ""
    raise MuntinError(f"{argument} must be a whole number from 1{limit}{', or None' * optional}, got {value!r}.")


def public_name(value: object, module: ModuleType) -> str | None:
    """The name of a value that is a public object of the module, such as a function that was not called."""
    return next((name for name in module.__all__ if getattr(module, name) is value), None)
