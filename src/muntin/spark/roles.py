"""What the columns of a result are to Muntin, as metadata that travel with the column through selects and files."""

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
Role = Literal["key", "count"]


def result_type(plan: Plan, schema: pa.Schema) -> T.StructType:
    """The Spark type of results, with the roles of their columns."""
    marks = {name: {METADATA: role} for name, role in _roles(plan).items()}
    fields = schema_to_spark(schema)
    return T.StructType([T.StructField(each.name, each.dataType, metadata=marks.get(each.name)) for each in fields])


def columns_with(frame: DataFrame, role: Role) -> list[str]:
    return [field.name for field in frame.schema if field.metadata.get(METADATA) == role]


def _roles(plan: Plan) -> dict[str, Role]:
    """The keys, and the aggregate that is how many rows a group has, if there is one.

    Windows that are not over time belong to one key each: what drift compares, the groups of a window, is not there.
    """
    if not all(isinstance(window, PaneWindow) for window in plan.windows):
        return {}
    roles: dict[str, Role] = dict.fromkeys(plan.keys, "key")
    counts = [output.name for output in plan.outputs if output.bound.partials == (ROW_COUNT,)]
    return roles | dict.fromkeys(counts[:1], "count")
