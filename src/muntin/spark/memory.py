"""Keeps freed memory in the Python worker, for the arrays of the next batch."""

from __future__ import annotations

import ctypes
import os
from functools import cache

KEPT = 1 << 30
"""Bytes of free memory that a worker may keep; blocks of this size and larger are given back at once."""
VARIABLE = "MUNTIN_KEEP_FREED_MEMORY"
"""The environment variable of a worker that turns this off."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""


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
