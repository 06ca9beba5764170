"""The same queries on a cluster of several workers, unchanged; in a process of its own, which has its own session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("cluster_script.py")


@pytest.mark.extended
def test_queries_on_a_cluster(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert "cluster: streams and tables agree with Spark, and all workers shed" in done.stdout, done.stderr[-3000:]
