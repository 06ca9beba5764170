"""Tests of queries: drive a stream batch by batch, without Spark or on it, and compare the windows.

from muntin.testing import Stream, assert_windows
"""

from __future__ import annotations

from muntin.testing.compare import assert_windows
from muntin.testing.step import Step
from muntin.testing.stream import Stream

__all__ = ["Step", "Stream", "assert_windows"]
