"""The memory of processes, looked at while they run."""

from __future__ import annotations

import os
import sys
import time
from unittest.mock import patch

import pytest

from muntin.bench import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")


def test_the_peak_of_all_processes_together_is_found() -> None:
    workers: list[int] = []
    with patch.object(processes, "_workers", lambda: workers), patch.object(processes, "_PAUSE", 0.001):
        with processes.together() as peak:
            workers.append(os.getpid())
            held = bytearray(os.urandom(1 << 20) * 64)
            until = time.monotonic() + 10
            while peak.size < len(held) and time.monotonic() < until:
                time.sleep(0.002)
        assert peak.workers == 1
        assert peak.size > len(held)
        seen = peak.size
        more = bytearray(os.urandom(1 << 20) * 128)
        time.sleep(0.02)
        assert peak.size == seen  # nobody looks any more
        del held, more
