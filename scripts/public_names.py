"""Write tests/packaging/public_names.txt: the public names of Muntin, with their parameters."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import muntin
from muntin import aggregates, testing, windows

RECORD = Path(__file__).resolve().parents[1] / "tests" / "packaging" / "public_names.txt"
MODULES = (muntin, aggregates, testing, windows)
USED = ("Join", "Progress", "Query", "Session", "Stream")
"""Classes whose methods are for users. Of the others, only the name is public: functions build their values."""
BETWEEN_LAYERS = {
    *("check_complete", "computed_by_spark", "draft", "finish", "followed", "has_own_watermark", "kept_at_source"),
    *("marks", "named_keys", "option", "plan", "prepared", "prepared_rows", "resolved", "sides", "types"),
}
"""Methods and properties of these classes that only Muntin's other layers call."""


def parameters(found: object) -> str:
    """Without annotations: how they print depends on the version of Python."""
    if not callable(found):
        return ""
    try:
        signature = inspect.signature(found)
    except ValueError:  # exceptions
        return ""
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def members(name: str, found: type) -> Iterator[str]:
    for member in sorted(dir(found)):
        from_muntin = any(member in vars(base) for base in found.__mro__ if base.__module__.startswith("muntin"))
        if from_muntin and not member.startswith("_") and member not in BETWEEN_LAYERS:
            if inspect.isroutine(attribute := getattr(found, member)):
                yield f"{name}.{member}{parameters(attribute)}"
            elif isinstance(attribute, property):
                yield f"{name}.{member}"


def names() -> Iterator[str]:
    for module in MODULES:
        for exported in sorted(module.__all__):
            found, name = getattr(module, exported), f"{module.__name__}.{exported}"
            if inspect.isclass(found):
                yield name
                yield from members(name, found) if exported in USED else ()
            else:
                yield f"{name}{parameters(found)}"


if __name__ == "__main__":
    written = "\n".join(names()) + "\n"
    if "--check" in sys.argv:
        recorded = RECORD.read_text(encoding="utf-8").splitlines()
        gone, new = set(recorded) - set(names()), set(names()) - set(recorded)
        lines = [*(f"- {line}" for line in sorted(gone)), *(f"+ {line}" for line in sorted(new))]
        if lines:
            sys.exit("\n".join(["The public interface has changed; if that is meant, run it without --check:", *lines]))
    else:
        RECORD.write_text(written, encoding="utf-8")
