"""What a query asks of Spark, answered without it: see `muntin.query.backend`."""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.query import Query
from muntin.testing.rows import ON_SPARK, Rows, resolved
from muntin.testing.schemas import schema_of

__all__ = ["case_sensitive", "frame_of", "most_workers", "resolved", "result_fields", "source_of", "to_df"]


def source_of(data: Rows, argument: str = "data") -> Rows:
    return data


def frame_of(data: Rows) -> Rows:
    return data


def case_sensitive(frame: object) -> bool:
    return False


def result_fields(schema: Any) -> pa.Schema:
    return schema_of(schema)


def most_workers(frame: object) -> int:
    return 1


def to_df(query: Query) -> NoReturn:
    raise MuntinError(f"A query that runs without Spark has no DataFrame; return the query itself. {ON_SPARK}")
