"""The wheel alone, in a clean environment, runs the stream of the quickstart: with the oldest Spark and the newest."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.try_wheel import ROOT, run, try_wheel


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An environment with Spark is a gigabyte, and pytest would keep it for three runs."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("spark", [pytest.param("pyspark==4.1.*", marks=pytest.mark.extended), "pyspark"])
def test_the_wheel_alone_runs_the_quickstart(spark: str, place: Path) -> None:
    built = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", ROOT, cwd=place)
    assert built.returncode == 0, built.stderr
    (wheel,) = (place / "dist").glob("muntin-*.whl")
    try_wheel(wheel, sys.executable, spark, place)  # ends with what went wrong, if anything does
