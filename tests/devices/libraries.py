"""The array libraries that kernels are tested on, without a GPU."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from muntin.devices.device import Device

TORCH = Device("cpu", "torch")
needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="PyTorch is not installed: `make devices` installs it and runs this"
)
DEVICES = [
    pytest.param(Device("cpu", "numpy"), id="numpy"),
    pytest.param(Device("cpu", "array_api_strict"), id="strict"),
    pytest.param(TORCH, id="torch", marks=needs_torch),
]
"""NumPy through the kernels of devices, nothing but the array API standard, and PyTorch on the processor."""
