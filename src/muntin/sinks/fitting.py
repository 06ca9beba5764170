"""Checks, before a stream starts, that a table takes its results."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.errors import MuntinError


def check_columns(target: str, given: Mapping[str, str], existing: Mapping[str, tuple[str, bool]]) -> None:
    """Check that a table has the columns of the results, of the same types, and needs no others.

    Both map names to types as Spark writes them; `existing` also says whether a column may be null.
    """
    missing = [name for name in given if name not in existing]
    if missing:
        raise MuntinError(
            f"target {target} has no column {missing[0]!r}, which the results have; add it to the table, drop it from "
            f"the results, or give another target. The results have {_listed(given)}."
        )
    for name, kind in given.items():
        if existing[name][0] != kind:
            raise MuntinError(
                f"target {target} has the column {name!r} of type {existing[name][0]}, and the results of type {kind}; "
                "cast it in the results, or give another target."
            )
    for name, (_, nullable) in existing.items():
        if name not in given and not nullable:
            raise MuntinError(
                f"target {target} has a column {name!r} that must not be null, and the results have none; add it to "
                "the results, or let it be null."
            )


def _listed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
