"""Checks that Spark's Python workers can import Muntin, with the versions of Muntin and Python of the driver."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.devices.device import Device
from muntin.errors import MuntinError
from muntin.version import __version__

CHECK = "spark.muntin.checkWorkers"
CHECKED = "spark.muntin.checkedWorkers"
"""The setting with the last check that passed. Spark copies it to the sessions that it clones for streams."""

TABLES = ("muntin.spark.window_stage",)
STREAMS = (*TABLES, "google.protobuf.runtime_version")
"""The modules that workers import: for the stages, and for Spark's client of the state."""

_ROWS = 512
"""Spark spreads a range of this many rows over all cores, so it reaches all workers."""
_REPORT = T.StructType([T.StructField(name, T.StringType()) for name in ("where", "version", "failure")])
_OTHER_PYTHON = re.compile(r"Python in worker has different version: (\S+) than that in driver: (\d+\.\d+)")
_NOT_STARTED = re.compile(r".*(Cannot run program|pyspark\.daemon's|Python worker (?:failed|exited)).*")


def check_device(spark: SparkSession, device: Device | None) -> None:
    """Ask the workers whether they have a query's device, rather than fail in the first batch of a stream."""
    if device is None or not _is_enabled(spark):
        return
    found = F.udf(_problem(device.name, device.library), T.StringType(), useArrow=False)
    rows = spark.range(_ROWS).select(found("id").alias("problem")).distinct().collect()
    for problem in sorted(row.problem for row in rows if row.problem):
        raise MuntinError(
            f"{problem} This is so in Spark's Python workers, which run the query. Without .device(...), it runs with "
            f"NumPy; {CHECK}=false turns this check off."
        )


def _problem(name: str, library: str) -> Callable[[int], str]:
    def problem(_row: int) -> str:
        from muntin.devices.device import Device

        return Device(name, library).problem or ""

    return problem


def check_workers(spark: SparkSession, streaming: bool) -> None:
    """Run a small job in the workers, once per session, rather than fail in the first batch of a stream."""
    modules = STREAMS if streaming else TABLES
    python = "{}.{}".format(*sys.version_info)
    # The modules of tables are a prefix of those of streams, so a check for streams is also one for tables.
    passed = f"{__version__} {python} {' '.join(modules)}"
    if not _is_enabled(spark) or (spark.conf.get(CHECKED, "") or "").startswith(passed):
        return
    try:
        reports = _reports(spark, modules)
    except Exception as error:
        problem = worker_problem(str(error))
        if problem is None:
            raise
        raise MuntinError(f"{problem} {_remedy()}") from error
    for where, version, failure in sorted(reports):
        if failure:
            raise MuntinError(f"Spark's Python workers cannot run Muntin ({where}): {failure}. {_remedy()}")
        if version != __version__:
            raise MuntinError(
                f"Spark's Python workers have Muntin {version} ({where}), and the driver has {__version__}; "
                f"both need the same. {_remedy()}"
            )
    spark.conf.set(CHECKED, passed)


def worker_problem(message: str) -> str | None:
    """The problem of the Python workers in the error of a failed job; None if it failed for another reason."""
    versions = _OTHER_PYTHON.search(message)
    if versions is not None:
        return f"Spark's Python workers run Python {versions[1]}, and the driver runs Python {versions[2]}."
    line = _NOT_STARTED.search(message)
    return None if line is None else f"Spark could not start its Python workers: {line[0].strip(' .:')}."


def _is_enabled(spark: SparkSession) -> bool:
    setting = spark.conf.get(CHECK, "true") or ""
    if setting.strip().lower() not in ("true", "false"):
        raise MuntinError(f"{CHECK} is {setting!r}; it can be 'true' or 'false'.")
    return setting.strip().lower() == "true"


def _reports(spark: SparkSession, modules: Sequence[str]) -> set[tuple[str, str, str]]:
    # Without Arrow, the function also runs without pyarrow, and can report that.
    report = F.udf(_report(tuple(modules)), _REPORT, useArrow=False)
    rows = spark.range(_ROWS).select(report("id").alias("report")).collect()
    return {(row.report["where"], row.report["version"], row.report["failure"]) for row in rows}


def _report(modules: tuple[str, ...]) -> Callable[[int], tuple[str, str, str]]:
    """The function to run in workers. A nested function is pickled by value, so it runs without Muntin."""

    def report(_row: int) -> tuple[str, str, str]:
        import platform
        import sys
        from importlib import import_module

        where = f"{sys.executable} on {platform.node()}"
        try:
            for module in modules:
                import_module(module)
            return where, str(import_module("muntin").__version__), ""
        except Exception as error:  # a broken installation may raise anything
            return where, "", f"{type(error).__name__}: {error}"

    return report


def _remedy() -> str:
    return (
        f"If they run on this machine, set the environment variable PYSPARK_PYTHON to {sys.executable} before the "
        "session is made (or let muntin.session() make it). On a cluster, install "
        f"muntin=={__version__} with its dependencies for the Python of all executors, of the driver's minor version, "
        "and name that Python in PYSPARK_PYTHON, or in spark.pyspark.python with spark-submit; or send it with "
        "spark.archives. "
        "Modules in a separate folder are found with spark.executorEnv.PYTHONPATH. "
        f"More in docs/operations.md, Workers; {CHECK}=false turns this check off."
    )
