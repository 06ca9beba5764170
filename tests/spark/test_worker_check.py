"""Workers that cannot run Muntin are told by `configure` and the first `to_df()`, and not by the first batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.spark.worker_check import worker_problem

SCRIPT = Path(__file__).with_name("odd_worker_script.py")


@pytest.mark.slow
def test_workers_that_cannot_run_muntin(tmp_path: Path) -> None:
    check("classic", tmp_path)


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.usefixtures("connect_port")
def test_workers_of_a_connect_server(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="pip install 'muntin[connect]'")
    check("connect", tmp_path)


def check(kind: str, place: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), kind, str(place)],
        env=environment,
        cwd=place,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert f"{kind}: workers are checked" in done.stdout, done.stderr[-3000:]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: 3.12, PySpark",
            "Spark's Python workers run Python 3.10, and the driver runs Python 3.12.",
        ),
        (
            'Job aborted.\njava.io.IOException: Cannot run program "py": error=2, No such file\n\tat java.base',
            'Spark could not start its Python workers: java.io.IOException: Cannot run program "py": error=2, '
            "No such file.",
        ),
        (
            ": SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout.\n\tat",
            "Spark could not start its Python workers: SparkException: EOFException occurred while reading the port "
            "number from pyspark.daemon's stdout.",
        ),
        ("Job 0 cancelled because SparkContext was shut down", None),
    ],
)
def test_what_a_failed_job_says_of_its_workers(message: str, problem: str | None) -> None:
    assert worker_problem(message) == problem
