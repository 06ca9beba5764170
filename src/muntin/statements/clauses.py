"""Refuses what a query cannot say. A part of a statement that nobody has thought of is refused, too, not left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muntin.statements.positions import refuse

_USED = {"expressions", "from", "from_", "where", "group", "kind", "operation_modifiers"}
_USED_OF_TABLES = {"this", "db", "catalog", "alias"}
_WORDS = {
    "with_": ("WITH",),
    "with": ("WITH",),
    "joins": ("JOIN",),
    "laterals": ("LATERAL", "LATERAL VIEW"),
    "having": ("HAVING",),
    "windows": ("WINDOW",),
    "qualify": ("QUALIFY",),
    "distinct": ("DISTINCT",),
    "order": ("ORDER BY", "ORDER"),
    "sort": ("SORT BY", "SORT"),
    "cluster": ("CLUSTER BY", "CLUSTER"),
    "distribute": ("DISTRIBUTE BY", "DISTRIBUTE"),
    "limit": ("LIMIT",),
    "offset": ("OFFSET",),
    "pivots": ("PIVOT", "UNPIVOT"),
    "into": ("INTO",),
    "locks": ("FOR",),
    "sample": ("TABLESAMPLE",),
    "version": ("FOR", "VERSION", "TIMESTAMP"),
    "when": ("FOR", "VERSION", "TIMESTAMP"),
}
"""How the parts of a parsed statement begin."""


def check_clauses(text: str, tokens: Sequence[Any], select: Any) -> None:
    """Refuse the clauses of a SELECT that a query has not."""
    _check(text, tokens, select, _USED)


def check_table(text: str, tokens: Sequence[Any], table: Any) -> None:
    """Refuse what stands behind a table, such as a sample or a version of it."""
    _check(text, tokens, table, _USED_OF_TABLES)
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        refuse(text, place_of(alias, place_of(table)), "columns have the names of the table; rename the results.")


def _check(text: str, tokens: Sequence[Any], node: Any, used: set[str]) -> None:
    for name, value in node.args.items():
        if value and name not in used:
            words = _WORDS.get(name, (name.upper(),))
            starts = {token.text.upper(): int(token.start) for token in reversed(tokens)}
            word = next((word for word in words if word in starts), words[0])
            at = starts.get(word, place_of(value[0] if isinstance(value, list) else value))
            refuse(text, at, f"{word.removesuffix(' BY')} has no counterpart in a query; do it with its results.")


def place_of(node: Any, otherwise: int = 0) -> int:
    """Where a part of a statement begins."""
    if not hasattr(node, "walk"):
        return otherwise
    return min((int(each.meta["start"]) for each in node.walk() if "start" in each.meta), default=otherwise)


def check_expression(text: str, exp: Any, node: Any) -> None:
    """Refuse what cannot be computed for each row: another SELECT, a window function, an aggregate."""
    for kind, why in (
        (exp.Query, "a query has no subqueries; join the data first."),
        (exp.Window, "a window function has no counterpart in a query; do it with its results."),
        (exp.AggFunc, "an aggregate cannot be part of a column, a key or a condition."),
    ):
        found = node.find(kind)
        if found is not None:
            refuse(text, place_of(found, place_of(node)), why)
