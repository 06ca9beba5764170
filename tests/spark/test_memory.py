"""Freed memory stays with a worker: the same array, made again, needs no new pages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from muntin.spark.memory import VARIABLE

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
def test_it_can_be_switched_off() -> None:
    environment = {**os.environ, VARIABLE: "off"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60, env=environment
    )
    assert int(done.stdout) >= 10
