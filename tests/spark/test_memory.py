"""Freed memory stays with a worker: the same array, made again, needs no new pages."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from unittest.mock import Mock

import pytest

from muntin.spark import memory

SCRIPT = """
import resource
import numpy as np
from muntin.spark.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        np.ones(4_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
keep_freed_memory()  # once is enough, and twice no harm
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
def test_an_array_that_is_made_again_needs_no_new_pages() -> None:
    told = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    assert int(told.stdout) < 10  # each of ten arrays would need 8,000 small ones, or 16 large ones


@pytest.mark.parametrize(("value", "calls"), [("off", 0), ("on", 2), (None, 2)])
def test_it_can_be_switched_off(value: str | None, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(memory.VARIABLE, value)
    library = Mock()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    memory.keep_freed_memory.__wrapped__()
    assert library.mallopt.call_count == calls
