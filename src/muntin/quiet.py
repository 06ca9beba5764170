"""Redirects standard error, where Spark writes a lot, to a file, which is shown if something fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STDERR = 2


@contextmanager
def stderr_to(log: Path) -> Iterator[None]:
    """Redirect the file descriptor, not `sys.stderr`: Java and Spark's Python workers inherit the descriptor."""
    sys.stderr.flush()
    saved = os.dup(_STDERR)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), _STDERR)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, _STDERR)
        os.close(saved)


def last_lines(log: Path, count: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:])
