"""A Spark cluster of one's own: a master and workers as processes, on loopback.

Every worker has its own folder for temporary files, as if it were another machine: what tasks of different workers know
of each other, they know through Spark.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
HERE = "127.0.0.1"


@contextmanager
def cluster(place: Path, workers: int = 2) -> Iterator[str]:
    """The address of a master with so many workers of one core each. Their temporary folders are `place/worker-0`, …"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": HERE,
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        # Workers must find Muntin, as they do where it is installed.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    common = ["--host", HERE, "--webui-port", "0"]
    started: list[subprocess.Popen[bytes]] = []
    try:
        log = place / "master.log"
        started.append(_spark_class("master.Master", [*common, "--port", "0"], log, environment))
        address = _said(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            own = place / f"worker-{number}"
            own.mkdir()
            log = place / f"worker-{number}.log"
            sizes = ["--cores", "1", "--memory", "1g", "--work-dir", str(own / "work")]
            its_folder = {"TMPDIR": str(own), "SPARK_LOCAL_DIRS": str(own)}
            started.append(_spark_class("worker.Worker", [*common, *sizes, address], log, environment | its_folder))
            _said(log, "Successfully registered with master")
        yield address
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            process.wait(timeout=30)


def _spark_class(
    name: str, arguments: Sequence[str], log: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )


def _said(log: Path, pattern: str, seconds: float = 60) -> str:
    """What a process writes once it is ready."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found.group(found.lastindex or 0)
        time.sleep(0.1)
    raise TimeoutError(f"{pattern!r} is not in {log.name}: {log.read_text(errors='replace')[-2000:]}")
