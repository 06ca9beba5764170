"""A readable description of the query, stored beside its state, so that changes of the query can be reported.

The fingerprint shows that two queries differ; the description shows how. It covers everything that the fingerprint
covers. The state of a partial is included as a digest, since it is only compared.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from muntin.engine.fingerprint import digest, kept
from muntin.engine.hidden import PREFIX

if TYPE_CHECKING:
    from muntin.aggregates.aggregate import Bound
    from muntin.engine.plan import Plan
    from muntin.windows import Window

VERSION = 1
PAIRS = "pairs"
"""The `what` of window functions that compute the pairs of a join."""
FUNCTION = "a function of whole windows"
"""The `what` of the user's functions; this text is in checkpoints."""
Description: TypeAlias = dict[str, Any]


DESCRIBED = frozenset(
    ("version", "join", "time", "windows", "keys", "types", "aggregates", "partials", "tuples", "applied")
)
"""The parts of every description. Features have others, by their names."""


def description(plan: Plan) -> Description:
    applied = _applied(plan)
    content = {
        "version": VERSION,
        "join": (applied or {}).get("what") == PAIRS,
        "time": plan.time,
        "windows": [_window(window) for window in plan.own_windows],
        "keys": list(plan.keys),
        "types": {name: str(kind) for name, kind in sorted(plan.types.items())},
        "aggregates": [_aggregate(output.name, output.bound) for output in plan.outputs],
        "partials": [[digest(kept(partial)) for partial in leaf_set.partials] for leaf_set in plan.layout.leaf_sets],
        "tuples": list(plan.layout.tuples.names) if plan.layout.keeps_tuples and plan.layout.tuples is not None else [],
        "applied": applied,
    }
    return content | {feature.name: described for feature in plan.features if (described := feature.described())}


def encode(described: Description) -> bytes:
    return json.dumps(described, separators=(",", ":")).encode()


def decode(value: bytes) -> Description | None:
    """The description; None for an unknown version."""
    described: Description = json.loads(value)
    return described if described.get("version") == VERSION else None


def _window(window: Window) -> dict[str, object]:
    function, arguments = window.parameters
    return {"function": function, "arguments": arguments}


def _aggregate(name: str, bound: Bound) -> dict[str, object]:
    keeps = [digest(kept(partial)) for partial in bound.partials]
    keeps += [] if bound.holistic is None else [of_tuples(column) for column in bound.holistic.inputs]
    columns = [column for column in dict.fromkeys(bound.inputs) if not column.startswith(PREFIX)]
    return {"name": name, "written": bound.written, "columns": columns, "keeps": keeps}


def of_tuples(column: str) -> str:
    """The entry for a column of kept tuples."""
    return f"tuples with {column}"


def _applied(plan: Plan) -> dict[str, Any] | None:
    if plan.function is None:
        return None
    columns = sorted({*plan.function.columns} - {*plan.keys, plan.time})
    return {**plan.function.described(), "columns": columns}
