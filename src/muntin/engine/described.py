"""The description of the query in the state of a shard: written once, read when another query finds it."""

from __future__ import annotations

from muntin.engine.changes import changes
from muntin.engine.description import Description, decode, encode
from muntin.engine.fingerprint import digest
from muntin.engine.plan import Plan
from muntin.engine.state import StateBackend
from muntin.errors import StateError
from muntin.panes.packed import Kind, seal, unseal

_REMEDY = "Restore the query, or start it with a new checkpoint location."


def describe(plan: Plan, backend: StateBackend, described: str) -> str:
    """Write the description if it is new or has changed, and return its digest.

    A changed description has the same meaning for the state: only names or texts differ.
    """
    body = encode(plan.description)
    current = digest(body.decode())
    if current != described:
        backend.write_description(seal(Kind.DESCRIPTION, body))
    return current


def other_query(plan: Plan, backend: StateBackend) -> StateError:
    """The error for a checkpoint of another query."""
    made_by = _read(backend)
    if made_by is None:
        return StateError(
            "The checkpoint was made by a query with other windows, keys, columns or aggregates, so its panes "
            f"mean something else. {_REMEDY}"
        )
    differences = changes(made_by, plan.description)
    if not differences:
        return StateError(
            "The checkpoint was made by a query whose panes mean something else, though its windows, keys, columns and "
            f"aggregates look the same; another version of Muntin may have made it. {_REMEDY}"
        )
    return StateError(
        "The checkpoint was made by another query, so its panes mean something else. What differs: "
        f"{'; '.join(differences)}. {_REMEDY}"
    )


def other_shards(before: int, now: int) -> StateError:
    return StateError(
        f"The checkpoint was made with {before} shards, and the query now has {now}. Set "
        f"spark.sql.shuffle.partitions, or the workers of .parallel(), back to {before}, or start with a new "
        "checkpoint location."
    )


def _read(backend: StateBackend) -> Description | None:
    """The stored description; None if it is missing or unreadable, as it only improves the message."""
    value = backend.read_description()
    if value is None:
        return None
    try:
        return decode(bytes(unseal(Kind.DESCRIPTION, value)))
    except (StateError, ValueError):
        return None
