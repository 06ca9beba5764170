"""The fingerprint of a plan. Plans with equal fingerprints can read each other's state.

Checkpoints store it, so its text must never change. It is built field by field, independently of `repr`.
"""

from __future__ import annotations

import hashlib
from dataclasses import Field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from muntin.partials.custom import CustomPartial, OptionalPartial
from muntin.partials.partial import Partial

if TYPE_CHECKING:
    from muntin.engine.plan import Plan


def fingerprint(plan: Plan) -> str:
    layout = [[kept(partial) for partial in leaves.partials] for leaves in plan.layout.leaf_sets]
    parts: tuple[object, ...] = (
        plan.time,
        [replace(window, name=None) for window in plan.own_windows],
        plan.keys,
        sorted((name, str(kind)) for name, kind in plan.types.items()),
        layout,
    )
    if plan.layout.keeps_tuples and plan.layout.tuples is not None:
        parts += (plan.layout.tuples.names,)
    for feature in plan.features:
        parts += feature.identity()
    return digest(canonical(parts))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kept(partial: Partial) -> str:
    """The state of a partial, as canonical text."""
    return canonical(_without_functions(partial))


def canonical(value: object) -> str:
    """A value as text, by its class and fields, independently of its `repr`."""
    if is_dataclass(value) and not isinstance(value, type):
        # A field that was added later changes no fingerprint where it is not used.
        given = [field for field in fields(value) if not (field.metadata.get("later") and _is_default(value, field))]
        inner = ", ".join(f"{field.name}={canonical(getattr(value, field.name))}" for field in given)
        return f"{type(value).__qualname__}({inner})"
    if isinstance(value, list):
        return f"[{', '.join(map(canonical, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(canonical, value))}{',' * (len(value) == 1)})"
    return repr(value)


def _is_default(value: object, field: Field[Any]) -> bool:
    return bool(getattr(value, field.name) == field.default)


def _without_functions(partial: Partial) -> object:
    """The parts of a partial that define its state. For a custom one that is its shape: function addresses change."""
    if isinstance(partial, OptionalPartial):
        return ("optional", _without_functions(partial.inner))
    if isinstance(partial, CustomPartial):
        return ("custom", partial.columns, partial.where, partial.shape, partial.dtypes, partial.commutative)
    return partial
