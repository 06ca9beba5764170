"""The same query in a local Spark Connect session, in a process of its own: a session is one kind or the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="pip install 'muntin[connect]'")

SCRIPT = Path(__file__).with_name("connect_script.py")


@pytest.mark.usefixtures("connect_port")
def test_a_query_in_a_connect_session(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {
        "PYSPARK_PYTHON": sys.executable,
        # The workers of the server must find Muntin, as they do where it is installed.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "connect: streams and tables agree with Spark" in done.stdout, done.stderr[-3000:]
