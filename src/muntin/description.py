"""What the state of a query is of, in words: kept beside the state, so that a change of the query can be told.

The fingerprint says that two queries differ, the description says in what. It has all that the fingerprint covers; what
a partial keeps is there as a digest, since that is only compared.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from muntin.fingerprint import digest, kept
from muntin.holistic.applied import Applied
from muntin.joins.names import PREFIX
from muntin.joins.names import TIME as TIME_OF_PAIRS
from muntin.shown import approximate_shown, shed_shown

if TYPE_CHECKING:
    from muntin.aggregates.aggregate import Bound
    from muntin.plan import Plan
    from muntin.windows import Window

VERSION = 1
Description: TypeAlias = dict[str, Any]


def description(plan: Plan) -> Description:
    return {
        "version": VERSION,
        "join": plan.time == TIME_OF_PAIRS,
        "time": plan.time,
        "windows": [_window(window) for window in plan.windows],
        "keys": list(plan.keys),
        "types": {name: str(kind) for name, kind in sorted(plan.types.items())},
        "aggregates": [_aggregate(output.name, output.bound) for output in plan.outputs],
        "partials": [[digest(kept(partial)) for partial in each.partials] for each in plan.layout.leaf_sets],
        "tuples": list(plan.layout.tuples.names) if plan.layout.whole and plan.layout.tuples is not None else [],
        "applied": _applied(plan),
        "approximate": _approximation(plan),
        "shed": None
        if plan.shedding is None
        else {"method": plan.shedding.method, "written": shed_shown(plan.shedding)},
        "active": None if plan.worker is None else {"batch": plan.worker.dealing.batch},
    }


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
    keeps += [] if bound.whole is None else [of_tuples(column) for column in bound.whole.inputs]
    columns = [column for column in dict.fromkeys(bound.inputs) if not column.startswith(PREFIX)]
    return {"name": name, "written": bound.written, "columns": columns, "keeps": keeps}


def of_tuples(column: str) -> str:
    """What is kept where the tuples themselves are, with a column."""
    return f"tuples with {column}"


def _applied(plan: Plan) -> dict[str, object] | None:
    if plan.applied is None:
        return None
    what = "a function of whole windows" if isinstance(plan.applied, Applied) else "pairs"
    return {"what": what, "columns": sorted({*plan.applied.columns} - {*plan.keys, plan.time})}


def _approximation(plan: Plan) -> dict[str, object] | None:
    if plan.sampling is None:
        return None
    policy = plan.sampling.policy
    samples = [list(spec.columns) for spec in plan.sampling.specs]
    return {"seed": policy.seed, "samples": samples, "written": approximate_shown(policy)}
