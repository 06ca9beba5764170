"""The paper's four CUDA kernels, under the simulator of numba-cuda."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is installed on Linux alone")
def test_the_kernels_under_the_simulator() -> None:
    """In a process of its own: numba decides on the simulator when it is imported."""
    tests = Path(__file__).with_name("on_simulator.py")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(tests)],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 passed" in run.stdout
