"""The device that kernels run on, and the array library that they use there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from muntin.checks import one_of
from muntin.devices.shim import Arrays, CuPyArrays, NumPyArrays, TorchArrays
from muntin.errors import MuntinError

LIBRARIES = {"numpy": "NumPy", "torch": "PyTorch", "cupy": "CuPy"}
"""The libraries by the names of their packages."""
_STRICT = "array_api_strict"
"""Only for tests: nothing but the standard."""
_NAME = re.compile(r"cpu|cuda(:\d+)?")


@dataclass(frozen=True)
class Device:
    name: str
    """"cpu", "cuda" or, where there are several, "cuda:1"."""
    library: str

    @classmethod
    def of(cls, name: str, library: str | None = None) -> Device:
        """Validate the user's arguments. What is on this machine is not looked at: the workers may be others."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise MuntinError(
                f"device {name!r} is unknown; use 'cuda', 'cuda:1' for the second of several, or 'cpu'. AMD's GPUs are "
                "'cuda' to PyTorch, too."
            )
        if library is None:
            library = "numpy" if name == "cpu" else "torch"
        one_of(library, "library", dict.fromkeys(LIBRARIES, ""))
        if name == "cpu" and library == "cupy":
            raise MuntinError("CuPy has no arrays on a CPU; use .device('cuda', library='cupy'), or library='torch'.")
        if name != "cpu" and library == "numpy":
            raise MuntinError(f"NumPy has no arrays on {name!r}; use library='torch' or library='cupy'.")
        return cls(name, library)

    @property
    def is_default(self) -> bool:
        """Whether it is the processor, with NumPy: then no kernel of devices runs."""
        return self.library == "numpy"

    def __str__(self) -> str:
        return f"{self.name} ({LIBRARIES.get(self.library, self.library)})"

    @property
    def problem(self) -> str | None:
        """Why the device cannot be used in this process, as a sentence; None if it can."""
        missing = [module for module in (self.library, "array_api_compat") if find_spec(module) is None]
        if missing:
            extra = f"'muntin[{self.library}]'" if self.library in ("torch", "cupy") else "array-api-compat"
            names = " and ".join(missing)
            return f"Device {self} needs {names}, which this Python does not have: pip install {extra}."
        if self.name == "cpu":
            return None
        try:
            count = _device_count(self.library)
        except Exception as error:  # drivers fail in many ways
            return f"Device {self} cannot be used: {type(error).__name__}: {error}."
        number = int(self.name.partition(":")[2] or 0)
        if number < count:
            return None
        return f"Device {self} does not exist: {LIBRARIES[self.library]} finds {count or 'no'} GPU{'s' * (count != 1)}."

    @property
    def arrays(self) -> Arrays:
        """The library's arrays on the device."""
        problem = self.problem
        if problem is not None:
            raise MuntinError(f"{problem} Without .device(...), the query runs with NumPy.")
        return _arrays(self)


def _device_count(library: str) -> int:
    if library == "torch":
        return int(import_module("torch").cuda.device_count())
    return int(import_module("cupy").cuda.runtime.getDeviceCount())


@lru_cache(maxsize=8)
def _arrays(device: Device) -> Arrays:
    xp: Any = import_module(_STRICT if device.library == _STRICT else f"array_api_compat.{device.library}")
    if device.library == "torch":
        return TorchArrays(xp, import_module("torch").device(device.name))
    if device.library == "cupy":
        where = import_module("cupy").cuda.Device(int(device.name.partition(":")[2] or 0))
        where.use()
        return CuPyArrays(xp, where)
    return NumPyArrays(xp) if device.library == "numpy" else Arrays(xp)
