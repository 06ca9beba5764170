"""What a Python worker keeps from task to task, freed memory and modules, and what Spark may send it at once."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import cache

import pyarrow as pa

KEPT = 1 << 30
"""Bytes of free memory that a worker may keep; blocks of this size and larger are given back at once."""
RETURNED = 1 << 18
"""If none is to be kept: the size from which a block goes back to the system as soon as it is free."""
VARIABLE = "MUNTIN_KEEP_FREED_MEMORY"
"""The environment variable of a worker that says whether freed memory is kept."""
ARROW_ROWS = 1 << 14
"""The most rows of an Arrow batch that Spark sends to a worker, as `muntin.configure` sets it."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""

_frozen_modules = 0


def begin_task() -> None:
    """Prepare the worker: every task of the stages begins with this."""
    if os.environ.get(VARIABLE, "on").strip().lower() in ("off", "false", "0"):
        return_freed_memory()
    else:
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
    """Keep large blocks, from now on; with another C library than glibc, nothing changes.

    By default, glibc gives large blocks back to the system as soon as they are free, and every page of the next array
    has to be mapped and zeroed again. For arrays of some megabytes, that can take as long as the computation.
    """
    _set_thresholds(KEPT)


def return_freed_memory() -> None:
    """Give large blocks back at once, and the small ones that are free now."""
    _return_large_blocks()
    if (c := _c_library()) is not None:
        c.malloc_trim(0)


@cache
def _return_large_blocks() -> None:
    """Unless it is set, what counts as large grows up to 32 MB with the blocks that a process frees.

    Arrow's own allocator would keep what it has.
    """
    _set_thresholds(RETURNED)
    pa.set_memory_pool(pa.system_memory_pool())


def _set_thresholds(size: int) -> None:
    if (c := _c_library()) is not None:
        c.mallopt(_M_MMAP_THRESHOLD, size)
        c.mallopt(_M_TRIM_THRESHOLD, size)


@cache
def _c_library() -> ctypes.CDLL | None:
    """The process's C library, if it is glibc."""
    try:
        c = ctypes.CDLL(None)
        return c if hasattr(c, "mallopt") and hasattr(c, "malloc_trim") else None
    except OSError:
        return None
