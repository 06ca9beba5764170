"""A page to watch a stream on, and its figures for Prometheus."""

from muntin.spark.dashboard.server import Dashboard, dashboard

__all__ = ["Dashboard", "dashboard"]
