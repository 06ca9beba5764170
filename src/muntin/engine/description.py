"""What the state of a query is of, in words: kept beside the state, so that a change of the query can be told.

The fingerprint says that two queries differ, the description says in what. It has all that the fingerprint covers; what
a partial keeps is there as a digest, since that is only compared.
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
"""What is computed of windows where it is the pairs of a join."""
FUNCTION = "a function of whole windows"
"""The same for the user's function; this text is in checkpoints."""
Description: TypeAlias = dict[str, Any]


def description(plan: Plan) -> Description:
    applied = _applied(plan)
    own = {
        "version": VERSION,
        "join": any(feature.name == "join" for feature in plan.features) or (applied or {}).get("what") == PAIRS,
        "time": plan.time,
        "windows": [_window(window) for window in plan.own_windows],
        "keys": list(plan.keys),
        "types": {name: str(kind) for name, kind in sorted(plan.types.items())},
        "aggregates": [_aggregate(output.name, output.bound) for output in plan.outputs],
        "partials": [[digest(kept(partial)) for partial in each.partials] for each in plan.layout.leaf_sets],
        "tuples": list(plan.layout.tuples.names) if plan.layout.keeps_tuples and plan.layout.tuples is not None else [],
        "applied": applied,
    }
    return own | {feature.name: described for feature in plan.features if (described := feature.described())}


def encode(described: Description) -> bytes:
    return json.dumps(described, separators=(",", ":")).encode()


def decode(value: bytes) -> Description | None:
    """None for a version that is not known here."""
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
    """What is kept where the tuples themselves are, with a column."""
    return f"tuples with {column}"


def _applied(plan: Plan) -> dict[str, Any] | None:
    if plan.function is None:
        return None
    columns = sorted({*plan.function.columns} - {*plan.keys, plan.time})
    return {**plan.function.described(), "columns": columns}
