"""Memory that a Python worker has freed stays with it, for the arrays of the next batch."""

from __future__ import annotations

import ctypes
import os
from functools import cache

KEPT = 1 << 30
"""Bytes of free memory that a worker may keep; blocks from this size on are given back at once, as ever."""
VARIABLE = "MUNTIN_KEEP_FREED_MEMORY"
"""The environment variable of a worker that turns this off."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of glibc's `mallopt`."""


@cache
def keep_freed_memory() -> None:
    """Once in the life of a worker. Where the C library is not glibc, nothing changes.

    glibc gives large blocks back to the system as soon as they are free, and every page of the next array has to be
    mapped and zeroed anew: for arrays of some megabytes, which stages make and drop all the time, that can take as
    long as what is computed.
    """
    if os.environ.get(VARIABLE, "on").strip().lower() in ("off", "false", "0"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, KEPT)
    mallopt(_M_TRIM_THRESHOLD, KEPT)
