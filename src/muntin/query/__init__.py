"""Queries over one stream or table: `over()` starts one, an immutable value that is checked while it is built."""

from __future__ import annotations

from muntin.query.query import RESERVED, LatePolicy, Query, check_named
from muntin.query.start import over

__all__ = ["RESERVED", "LatePolicy", "Query", "check_named", "over"]
