"""Spark's MERGE into Delta tables, with a PySpark that Delta's extension is published for."""

from __future__ import annotations

import shutil
import venv
from pathlib import Path

import pytest
from scripts.try_wheel import BIN, ROOT, run

from tests.packaging.test_plain_install import place

__all__ = ["place"]
SCRIPT = Path(__file__).parent / "merge_script.py"
SPARK, DELTA = "4.1.4", "4.3.1"
POM = f"""
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>tests</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.delta</groupId><artifactId>delta-spark_{SPARK[:3]}_2.13</artifactId><version>{DELTA}</version>
    </dependency>
  </dependencies>
</project>
"""


@pytest.fixture
def jars(place: Path) -> Path:
    """The extension and what it needs beyond Spark's own jars, by Maven."""
    if shutil.which("mvn") is None:
        pytest.skip("Delta's extension comes by Maven (mvn), which is not installed")
    (place / "pom.xml").write_text(POM)
    folder = place / "jars"
    command = ("mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}")
    done = run(*command, "-DincludeGroupIds=io.delta,io.unitycatalog,org.antlr", cwd=place)
    if done.returncode:
        pytest.skip(f"Delta's extension cannot be had from Maven Central here: {done.stdout[:500]}")
    return folder


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.extended
def test_sessions_are_merged_by_spark(jars: Path, place: Path) -> None:
    venv.create(place / "environment", with_pip=True)
    python = place / "environment" / BIN / "python"
    installed = run(python, "-m", "pip", "install", "--quiet", f"pyspark=={SPARK}", "pytest", ROOT, cwd=place)
    assert installed.returncode == 0, installed.stderr
    done = run(python, SCRIPT, place, jars, cwd=place)
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.count(f"merged by Spark {SPARK}: 6 sessions") == 2
