"""The roles of result columns, as column metadata, which selects and files preserve."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from muntin.engine.layout import ROW_COUNT
from muntin.engine.plan import Plan
from muntin.spark.types import schema_to_spark
from muntin.windows import PaneWindow

METADATA = "muntin"
KEYS = "muntin-keys"
"""How many keys identify a row beside its window: some of them may have been dropped since."""
Role = Literal["key", "count", "own_key", "id"]
"""The keys, and the number of rows, of groups that share their windows; the keys of windows of a single key; and what
identifies a window."""


def result_type(plan: Plan, schema: pa.Schema) -> T.StructType:
    """The Spark type of results, with the roles of their columns."""
    metadata: dict[str, dict[str, object]] = {name: {METADATA: role} for name, role in _roles(plan).items()}
    for name in [name for name, role in _roles(plan).items() if role == "id"]:
        metadata[name][KEYS] = len(plan.keys)
    fields = schema_to_spark(schema)
    return T.StructType(
        [T.StructField(field.name, field.dataType, metadata=metadata.get(field.name)) for field in fields]
    )


def columns_with(frame: DataFrame, role: Role) -> list[str]:
    return [field.name for field in frame.schema if field.metadata.get(METADATA) == role]


def _roles(plan: Plan) -> dict[str, Role]:
    """The keys, the number of the window, and the aggregate that counts the rows of a group, if there is one.

    Windows that are not over time belong to a single key, so they have no groups that drift could compare. A function
    returns any number of rows for a window, so nothing identifies them.
    """
    over_time = all(isinstance(window, PaneWindow) for window in plan.windows)
    roles: dict[str, Role] = dict.fromkeys(plan.keys, "key" if over_time else "own_key")
    if plan.function is None:
        roles["window_id"] = "id"
    counts = [output.name for output in plan.outputs if output.bound.partials == (ROW_COUNT,)]
    return roles | dict.fromkeys(counts[:1] if over_time else (), "count")
