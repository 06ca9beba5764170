"""A Python for Spark's workers that is not quite the driver's: odd_worker.py FAULT -m pyspark.daemon pyspark.worker."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def main(fault: str, _dash_m: str, module: str, *arguments: str) -> None:
    del sys.path[0]  # the folder of this script
    if fault == "muntin is missing":
        sys.path[:] = [path for path in sys.path if not (Path(path) / "muntin").is_dir()]
    elif fault == "muntin is another":
        import muntin

        muntin.__version__ = "0.0.9"
    elif fault == "protobuf is missing":
        sys.modules["google.protobuf"] = None  # type: ignore[assignment]  # how Python is told that there is none
    elif fault == "python is another":
        import pyspark.worker  # noqa: F401  # before the version is wrong: imports look at it

        found = sys.version_info
        sys.version_info = (found[0], found[1] + 1, *found[2:])  # type: ignore[assignment]
    else:
        raise ValueError(fault)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
