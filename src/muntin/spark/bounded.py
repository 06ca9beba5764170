"""What Python data sources need for bounded runs, and PySpark has from 4.2 on."""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
except ImportError:  # before PySpark 4.2

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass

    ReadAllAvailable = None  # type: ignore[assignment, misc]

__all__ = ["ReadAllAvailable", "SupportsTriggerAvailableNow"]
