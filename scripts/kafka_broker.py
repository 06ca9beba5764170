"""Run a broker of Apache Kafka on this machine, until it is interrupted: make broker.

For trying things out, and for the tests: a single node in KRaft mode that listens on loopback, with its data in a
temporary folder that is removed at the end.
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from scripts.kafka_jars import KAFKA, REMEDIES, Jars, MissingError, fetch, found

CLUSTER = base64.urlsafe_b64encode(b"muntin's brokers").decode().rstrip("=")
START, STOP = 90, 30
"""Seconds."""


@contextmanager
def broker(jars: Sequence[Path], port: int | None = None) -> Iterator[str]:
    """The address of a broker that lives as long as the block."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    place = Path(tempfile.mkdtemp(prefix="muntin-kafka-"))
    try:
        port, controller = port or _free_port(), _free_port()
        settings = place / "server.properties"
        settings.write_text(_properties(place / "data", port, controller))
        command = [java, "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"]
        command.append(os.pathsep.join(map(str, jars)))
        _run([*command, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)])
        with (place / "log").open("wb") as log:
            server = subprocess.Popen([*command, "kafka.Kafka", str(settings)], stdout=log, stderr=log, cwd=place)
        try:
            _wait(port, server, place / "log")
            yield f"127.0.0.1:{port}"
        finally:
            _stop(server)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _properties(data: Path, port: int, controller: int) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": data.as_posix(),
        "num.partitions": 2,  # of topics that are made by writing to them
        # There is one node, so there is one copy of everything.
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Kafka cannot format its storage: {done.stdout}{done.stderr}")


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the broker does not start on port {port}: {log.read_text(errors='replace')[-3000:]}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(timeout=STOP)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _jars() -> Jars:
    try:
        return found()
    except MissingError:
        return fetch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=9092, help="where it listens on 127.0.0.1 (9092)")
    options = parser.parse_args()
    try:
        jars = _jars()
    except MissingError as missing:
        sys.exit(f"broker: {missing}\n{REMEDIES}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit())
    with broker(jars.broker, options.port) as address:
        print(f"Kafka {KAFKA} listens on {address}; Ctrl-C stops it", flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
