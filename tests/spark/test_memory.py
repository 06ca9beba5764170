"""A worker keeps freed memory, and garbage collection does not visit the modules that it has loaded."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

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


RETURNING = """
import os
import numpy as np
import pyarrow as pa
from muntin.spark.memory import begin_task

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

begin_task()
for size in (8_000_000, 4_000_000, 2_000_000, 100_000):  # freed blocks move what counts as large
    kept = [np.ones(size) for _ in range(300_000_000 // 8 // size)]
    columns = [pa.array(each).cast(pa.float32()) for each in kept[::2]]
    del kept, columns
at_rest = resident()
last = [np.ones(1_000) for _ in range(30_000)]
pinned = last[::1_000]  # so that the heap cannot shrink from its end
del last
begin_task()
print(at_rest, resident(), sum(map(len, pinned)))
"""


def _resident(**variables: str) -> tuple[int, int]:
    """Megabytes after large arrays were freed, and after small ones were."""
    told = subprocess.run(
        [sys.executable, "-c", RETURNING],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | variables,
    )
    at_rest, after_small, _ = map(int, told.stdout.split())
    return at_rest, after_small


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
def test_freed_memory_can_go_back_to_the_system() -> None:
    kept, returned = _resident(), _resident(**{memory.VARIABLE: "off"})
    assert kept[0] > 300
    assert max(returned) < 200


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_c_library", lambda: None)
    memory.keep_freed_memory.__wrapped__()
    memory.return_freed_memory()


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
