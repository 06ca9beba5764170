"""What a Python worker keeps from task to task: freed memory, and modules that the collector need not visit."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import cache

KEPT = 1 << 30
"""Bytes of free memory that a worker may keep; blocks of this size and larger are given back at once."""
VARIABLE = "MUNTIN_KEEP_FREED_MEMORY"
"""The environment variable of a worker that turns this off."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""

_frozen_modules = 0


def begin_task() -> None:
    """Prepare the worker: every task of the stages begins with this."""
    keep_freed_memory()
    freeze_modules()


def freeze_modules() -> None:
    """Exempt what is loaded from garbage collection, again whenever more modules have been loaded.

    Spark's workers collect all garbage after every task, before they take the next one. That visits every object of
    every module, those of NumPy, pandas and pyarrow included, several times in a batch. Whatever else is alive at that
    moment is exempt, too, and still freed when nothing refers to it.
    """
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        _frozen_modules = len(sys.modules)
        gc.freeze()


@cache
def keep_freed_memory() -> None:
    """Change the settings of glibc, once per worker; with another C library, nothing changes.

    By default, glibc gives large blocks back to the system as soon as they are free, and every page of the next array
    has to be mapped and zeroed again. For arrays of some megabytes, that can take as long as the computation.
    """
    if os.environ.get(VARIABLE, "on").strip().lower() in ("off", "false", "0"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, KEPT)
    mallopt(_M_TRIM_THRESHOLD, KEPT)
