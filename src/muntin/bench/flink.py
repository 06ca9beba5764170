"""Flink SQL over the files of a benchmark, in the Python of another environment: apache-flink and PySpark disagree.

`MUNTIN_FLINK` names an interpreter that has the package apache-flink. Its Parquet format is a jar of its own, which is
beside Flink's others or in `MUNTIN_FLINK_JARS`, and needs classes that PySpark has. Flink runs in one
process with two slots, keeps its state in memory and writes no checkpoints, and its results go nowhere.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyspark

from muntin.errors import MuntinError

PYTHON, JARS = "MUNTIN_FLINK", "MUNTIN_FLINK_JARS"
SPARKS_JARS = ("hadoop-client", "aircompressor")
"""What Flink's Parquet format needs besides: the classes of Hadoop, and LZ4."""
SCRIPT = Path(__file__).with_name("flink_script.py")


@dataclass(frozen=True)
class Job:
    """Tables over folders of files, and statements of SQL."""

    columns: Mapping[str, str]
    """The columns of each table, with its watermark. Tables are folders of that name."""
    queries: Mapping[str, str]
    """SELECT statements, by the name of the query."""


def is_there() -> bool:
    return bool(os.environ.get(PYTHON))


def seconds(job: Job, place: Path, total: str | None = None) -> dict[str, float]:
    """Seconds of each query, from its start until all rows have been read and all windows have closed.

    With `total`, the name of a column, it is the sum of that column over all results, in place of the seconds.
    """
    jars = [
        *(jar for name in SPARKS_JARS for jar in (Path(pyspark.__file__).parent / "jars").glob(f"{name}-*.jar")),
        *Path(os.environ.get(JARS, os.devnull)).glob("*.jar"),
    ]
    task: dict[str, Any] = {**asdict(job), "place": str(place), "jars": list(map(str, jars)), "total": total}
    if not Path(os.environ[PYTHON]).exists():
        raise MuntinError(f"{PYTHON} is {os.environ[PYTHON]!r}, which is no file; name a Python that has apache-flink.")
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    ran = subprocess.run(
        [os.environ[PYTHON], str(SCRIPT)],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if ran.returncode:
        raise MuntinError(f"Flink failed, with the Python of {PYTHON}:\n{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}")
    answer: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return answer
