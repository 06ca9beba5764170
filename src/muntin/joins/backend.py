"""What joins need of Spark, beyond what queries need: see `muntin.query.backend`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from muntin.query.backend import Backend, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.joins.join import Join, Prepared
    from muntin.joins.sides import Condition, Side


class JoinBackend(Backend, Protocol):
    """The functions of `muntin.spark.backend`."""

    def union_source(
        self, left: Side, right: Side, on: Sequence[str], conditions: Mapping[str, Condition]
    ) -> Source: ...

    def both_sides(self, join: Join) -> Source: ...

    def named(self, side: Side, on: Sequence[str]) -> DataFrame: ...

    def is_condition(self, where: Any, frame: DataFrame) -> bool: ...

    def read_by(self, where: Any, join: Join) -> list[str]: ...

    def build_join(self, join: Join, prepared: Prepared) -> DataFrame: ...


def spark() -> JoinBackend:
    """The implementation on Spark, imported on first use."""
    return cast("JoinBackend", importlib.import_module("muntin.spark.backend"))
