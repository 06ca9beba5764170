"""Try the wheel alone with every Python and every Spark that Muntin supports: make matrix.

Each combination gets a clean environment and runs the quickstart there; with --tests, an environment with the tools of
development runs the tests instead. An interpreter or a version of Spark that cannot be had here is skipped and listed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
SPARKS = ("4.1", "4.2", "4.3")


def interpreter(version: str) -> str | None:
    """An interpreter of this minor version: on the PATH, of pyenv, or of uv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places: list[Path | str | None] = [
        shutil.which(f"python{version}"),
        *sorted(pyenv.glob(f"versions/{version}.*/bin/python")),
    ]
    if uv := shutil.which("uv"):
        places.append(subprocess.run([uv, "python", "find", version], capture_output=True, text=True).stdout.strip())
    asks = f"import sys, ensurepip, venv; sys.exit(sys.version_info[:2] != {tuple(map(int, version.split('.')))})"
    for place in places:
        if place and subprocess.run([place, "-c", asks], capture_output=True).returncode == 0:
            return str(place)
    return None


def spark_exists(python: str, version: str) -> bool:
    """Whether the package index has it for this Python."""
    listed = subprocess.run([python, "-m", "pip", "index", "versions", "pyspark"], capture_output=True, text=True)
    return re.search(rf"\b{re.escape(version)}\.\d+\b", listed.stdout) is not None


def cell(python: str, spark: str, wheel: Path, tests: Sequence[str] | None) -> int:
    requirement = f"pyspark=={spark}.*"
    if tests is None:
        tried = [sys.executable, str(ROOT / "scripts" / "try_wheel.py"), str(wheel), "--python", python]
        return subprocess.run([*tried, "--spark", requirement]).returncode
    with tempfile.TemporaryDirectory(prefix="muntin-matrix-") as place:
        environment = {**os.environ, "PYTHON": python}
        setup = subprocess.run([str(ROOT / "scripts" / "setup"), place, requirement], env=environment)
        if setup.returncode != 0:
            return setup.returncode
        return subprocess.run([f"{place}/bin/pytest", *tests], cwd=ROOT).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this one; may be repeated")
    parser.add_argument("--spark", action="append", choices=SPARKS, help="only this one; may be repeated")
    parser.add_argument("--tests", metavar="ARGUMENTS", help="what pytest gets, such as \"-m 'not slow'\"")
    options = parser.parse_args()
    tests = None if options.tests is None else shlex.split(options.tests)
    outcomes: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory(prefix="muntin-dist-") as dist:
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", dist, str(ROOT)]
        subprocess.run(pip, check=True)
        (wheel,) = Path(dist).glob("*.whl")
        for version in options.python or PYTHONS:
            python = interpreter(version)
            for spark in options.spark or SPARKS:
                if python is None:
                    outcomes[version, spark] = f"skipped: no Python {version} with venv on this machine"
                elif not spark_exists(python, spark):
                    outcomes[version, spark] = f"skipped: the package index has no Spark {spark} for it"
                else:
                    print(f"Python {version}, Spark {spark}", flush=True)
                    outcomes[version, spark] = "failed" if cell(python, spark, wheel, tests) else "passed"
    for (version, spark), outcome in outcomes.items():
        print(f"Python {version}  Spark {spark}  {outcome}")
    if "passed" not in outcomes.values():
        print("matrix: nothing could be tried")
        return 1
    return int("failed" in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
