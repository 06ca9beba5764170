"""A worker keeps freed memory, and garbage collection does not visit the modules that it has loaded."""

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


FREEZING = """
import gc
from muntin.spark.memory import begin_task

begin_task()
at_first = gc.get_freeze_count()
kept = [[] for _ in range(10_000)]
begin_task()
print(at_first, gc.get_freeze_count())
import xml.dom.minidom
begin_task()
print(gc.get_freeze_count())
cycle = []
cycle.append(cycle)
del cycle
print(gc.collect())
"""


def test_modules_are_exempt_from_garbage_collection_and_later_garbage_is_not() -> None:
    printed = subprocess.run([sys.executable, "-c", FREEZING], capture_output=True, text=True, check=True, timeout=60)
    at_first, unchanged, with_more_modules, collected = map(int, printed.stdout.split())
    assert at_first > 10_000
    assert unchanged <= at_first  # no new module: what a task made stays collectable
    assert with_more_modules > at_first + 10_000
    assert collected >= 1
