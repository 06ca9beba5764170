"""The wheel alone, in a clean environment, runs the stream of the quickstart: with the oldest Spark and the newest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = "Scripts" if os.name == "nt" else "bin"
WARNINGS = "default,ignore::ResourceWarning"
"""All that Python can warn of, but files that Spark's own processes leave to be closed."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An environment with Spark is a gigabyte, and pytest would keep it for three runs."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As from a shell of its own: nothing of this process's environment leads to the checkout."""
    ours = ("PYTHON", "SPARK_", "PYSPARK_", "VIRTUAL_ENV", "COV_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"PYTHONWARNINGS": WARNINGS, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(
        [str(part) for part in command],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("spark", [pytest.param("pyspark==4.1.*", marks=pytest.mark.extended), "pyspark"])
def test_the_wheel_alone_runs_the_quickstart(spark: str, place: Path) -> None:
    built = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", ROOT, cwd=place)
    assert built.returncode == 0, built.stderr
    (wheel,) = (place / "dist").glob("muntin-*.whl")
    venv.create(place / "environment", with_pip=True)
    programs = place / "environment" / BIN
    python = programs / "python"
    installed = run(python, "-m", "pip", "install", "--quiet", wheel, spark, cwd=place)
    assert installed.returncode == 0, installed.stderr
    checked = run(python, "-m", "pip", "check", cwd=place)
    assert checked.returncode == 0, checked.stdout

    found = run(python, "-c", "import muntin; print(muntin.__file__)", cwd=place)
    assert Path(found.stdout.strip()).is_relative_to(place / "environment"), found.stdout + found.stderr
    assert found.stderr == ""
    check_commands(programs / "muntin", place)

    example = shutil.copy(ROOT / "examples" / "quickstart.py", place)
    done = run(python, example, cwd=place)
    assert done.returncode == 0, done.stderr[-5000:]
    assert "|LGA   |297    |107.82511210762" in done.stdout
    assert re.findall(r".*\b[A-Z][A-Za-z]*Warning\b.*", done.stderr) == []


def check_commands(muntin: Path, place: Path) -> None:
    """What the commands draw with is an extra: without it, one sentence says what to install."""
    helped = run(muntin, "--help", cwd=place)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "demo" in helped.stdout
    refused = run(muntin, "demo", cwd=place)
    assert refused.returncode == 1
    assert refused.stderr == "muntin: this command needs rich and matplotlib: pip install 'muntin[cli]'\n"
