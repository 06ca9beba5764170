"""Fetch Apache Kafka, and Spark's connector to it, from Maven Central into build/kafka: make kafka.

The connector and Delta's extension are those for the PySpark of this environment. What cannot be had is named, and the
exit status is 1. Files that were fetched before are not fetched again.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KAFKA, DELTA, SCALA = "4.1.1", "4.3.1", "2.13"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
NOT_SPARKS_OWN = "org.apache.spark,org.apache.kafka,org.apache.commons,io.delta,io.unitycatalog"
"""Of what the connector and the extension need, the rest comes with Spark."""
REMEDIES = """What to do:
- If Maven (mvn) is not installed, install it: on Debian and Ubuntu, apt install maven.
- If this machine has no direct access, name its proxy or mirror in Maven's settings.xml.
- If a mirror lacks one version of a library, take another one: make kafka ARGS="--pin GROUP:ARTIFACT:VERSION"."""


class MissingError(Exception):
    """The jars are not there; says what is missing."""


@dataclass(frozen=True)
class Jars:
    """What a broker runs with, and what a Spark session needs."""

    broker: tuple[Path, ...]
    spark: tuple[Path, ...]


def folder() -> Path:
    return ROOT / "build" / "kafka" / f"spark-{version('pyspark')}"


def found() -> Jars:
    """The jars that were fetched for the PySpark of this environment."""
    if not (folder() / "complete").exists():
        raise MissingError(
            f"Kafka's jars for PySpark {version('pyspark')} are not in build/kafka: `make kafka` fetches jars for its "
            "own environment, and runs the tests with Kafka there"
        )
    return Jars(*(tuple(sorted((folder() / part).glob("*.jar"))) for part in ("broker", "spark")))


def fetch(pins: Sequence[str] = ()) -> Jars:
    """The jars, from Maven Central or its mirror where they are not there; `pins` replace versions of libraries."""
    spark = version("pyspark")
    wanted = {
        # slf4j-simple writes the broker's warnings to its log.
        "broker": (f"org.apache.kafka:kafka_{SCALA}:{KAFKA}", "org.slf4j:slf4j-simple:1.7.36"),
        "spark": (
            f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{spark}",
            f"io.delta:delta-spark_{'.'.join(spark.split('.')[:2])}_{SCALA}:{DELTA}",
        ),
    }
    note = "\n".join([*wanted["broker"], *wanted["spark"], *pins])
    complete = folder() / "complete"
    if not complete.exists() or complete.read_text() != note:
        shutil.rmtree(folder(), ignore_errors=True)
        _copy(wanted["broker"], pins, folder() / "broker")
        _copy(wanted["spark"], pins, folder() / "spark", f"-DincludeGroupIds={NOT_SPARKS_OWN}")
        complete.write_text(note)
    return found()


def _copy(wanted: Sequence[str], pins: Sequence[str], to: Path, *options: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingError("Maven (mvn) is not installed, which fetches:\n  " + "\n  ".join(wanted))
    to.mkdir(parents=True)
    # Maven remembers for a day that an artifact was missing; -U asks again.
    command = [
        maven,
        "-B",
        "-q",
        "-U",
        "-Dstyle.color=never",
        COPY,
        f"-DoutputDirectory={to}",
        "-DincludeScope=runtime",
        *options,
    ]
    (to / "pom.xml").write_text(_project(wanted, pins))
    done = subprocess.run(command, cwd=to, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(_reason(done.stdout, wanted))


def _project(wanted: Sequence[str], pins: Sequence[str]) -> str:
    managed, needed = ("".join(map(_dependency, names)) for names in (pins, wanted))
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>muntin</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><dependencyManagement><dependencies>{managed}</dependencies></dependencyManagement>"
        f"<dependencies>{needed}</dependencies></project>\n"
    )


def _dependency(name: str) -> str:
    parts = zip(("groupId", "artifactId", "version"), name.split(":"), strict=True)
    return "<dependency>" + "".join(f"<{tag}>{value}</{tag}>" for tag, value in parts) + "</dependency>"


def _reason(output: str, wanted: Sequence[str]) -> str:
    """Maven's words are long; what it could not get, and why, is in the first error."""
    error = next((line for line in output.splitlines() if "[ERROR]" in line), output[-2000:])
    at_the_end = re.sub(r"\S+ -> ", "", error)  # of a chain of libraries that need another
    named = re.findall(r"\b([\w.-]+:[\w.-]+):(?:jar|pom):([\w.-]+)", at_the_end)
    missing = sorted({":".join(name) for name in named if name[0] != "muntin:jars"}) or wanted
    return "\n  ".join(["these cannot be had from Maven Central:", *missing]) + f"\nMaven says: {error.strip()}"


def _coordinates(text: str) -> str:
    if not re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+", text):
        raise argparse.ArgumentTypeError(f"must be GROUP:ARTIFACT:VERSION, got {text!r}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        type=_coordinates,
        metavar="GROUP:ARTIFACT:VERSION",
        help="take this version of a library that the others need; may be repeated",
    )
    options = parser.parse_args()
    try:
        jars = fetch(options.pin)
    except MissingError as missing:
        sys.exit(f"kafka: {missing}\n{REMEDIES}")
    print(f"kafka: {len(jars.broker)} jars of Kafka {KAFKA} and {len(jars.spark)} for Spark {version('pyspark')}")


if __name__ == "__main__":
    main()
