"""Spark's MERGE into tables of Delta and Iceberg, with a PySpark that both are published for."""

from __future__ import annotations

import shutil
import venv
from pathlib import Path

import pytest
from scripts.try_wheel import BIN, ROOT, run

from tests.packaging.test_plain_install import place

__all__ = ["place"]
SCRIPT = Path(__file__).parent / "merge_script.py"
EXAMPLE = ROOT / "examples" / "pipeline_iceberg.py"
SPARK, DELTA, ICEBERG = "4.1.4", "4.3.1", "1.11.0"
POM = f"""
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>tests</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.delta</groupId><artifactId>delta-spark_{SPARK[:3]}_2.13</artifactId><version>{DELTA}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.iceberg</groupId><artifactId>iceberg-spark-runtime-{SPARK[:3]}_2.13</artifactId>
      <version>{ICEBERG}</version>
    </dependency>
  </dependencies>
</project>
"""


@pytest.fixture
def jars(place: Path) -> Path:
    """The extensions and what they need beyond Spark's own jars, by Maven."""
    if shutil.which("mvn") is None:
        pytest.skip("the extensions of Delta and Iceberg come by Maven (mvn), which is not installed")
    (place / "pom.xml").write_text(POM)
    folder = place / "jars"
    command = ("mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}")
    done = run(*command, "-DincludeGroupIds=io.delta,io.unitycatalog,org.antlr,org.apache.iceberg", cwd=place)
    if done.returncode:
        pytest.skip(f"the extensions of Delta and Iceberg cannot be had from Maven Central here: {done.stdout[:500]}")
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
    for kind, times in (("delta", 2), ("iceberg-sql", 1)):
        assert done.stdout.count(f"{kind} merged by Spark {SPARK}: 6 sessions") == times

    submit = ("env", f"PYSPARK_PYTHON={python}", python.with_name("spark-submit"))
    runtime = next(jars.glob("iceberg-spark-runtime-*.jar"))
    for _ in range(2):  # the second time, there is nothing new
        done = run(*submit, "--jars", runtime, EXAMPLE, place / "lake", cwd=place)
        assert done.returncode == 0, done.stderr[-5000:]
        assert "|LGA   |297    |107.825112107623" in done.stdout
        assert "26256 windows in the table" in done.stdout
