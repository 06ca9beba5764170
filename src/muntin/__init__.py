"""Muntin: windowed aggregation over streams and tables, on Spark.

import muntin
from muntin import aggregates as A, windows as W

muntin.over(rides, W.sliding("1 hour", "1 minute"), time="pickup", watermark="10 minutes", by="route")
      .agg(trips=A.count(), fare=A.mean("fare"))
      .to_df()
"""

from typing import TYPE_CHECKING, Any

from muntin import aggregates, windows
from muntin.errors import MuntinError, MuntinWarning, StateError
from muntin.joins.join import Join
from muntin.joins.start import join
from muntin.query import Query, over
from muntin.statements.statement import sql
from muntin.version import __version__

if TYPE_CHECKING:
    from muntin.spark.checkpoint import state
    from muntin.spark.dashboard import dashboard
    from muntin.spark.drain import drain
    from muntin.spark.drift import drift
    from muntin.spark.metrics import Progress, progress
    from muntin.spark.plot import plot
    from muntin.spark.scan import scan
    from muntin.spark.session import configure, session
    from muntin.spark.shed_rate import shed_rate
    from muntin.spark.upsert import upsert

__all__ = [
    "Join",
    "MuntinError",
    "MuntinWarning",
    "Progress",
    "Query",
    "StateError",
    "__version__",
    "aggregates",
    "configure",
    "dashboard",
    "drain",
    "drift",
    "join",
    "over",
    "plot",
    "progress",
    "scan",
    "session",
    "shed_rate",
    "sql",
    "state",
    "upsert",
    "windows",
]

_FROM_SPARK = {
    "configure": "session",
    "dashboard": "dashboard",
    "drain": "drain",
    "drift": "drift",
    "plot": "plot",
    "scan": "scan",
    "session": "session",
    "shed_rate": "shed_rate",
    "state": "checkpoint",
    "upsert": "upsert",
    "progress": "metrics",
    "Progress": "metrics",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import Spark on first use; the core does not need it."""
    if name in _FROM_SPARK:
        import importlib

        return getattr(importlib.import_module(f"muntin.spark.{_FROM_SPARK[name]}"), name)
    raise AttributeError(f"module 'muntin' has no attribute {name!r}")
