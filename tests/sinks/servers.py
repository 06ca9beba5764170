"""A PostgreSQL server of one's own, on loopback, in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

INSTALLED = Path("/usr/lib/postgresql")
"""Where Debian puts the programs of each version."""


def programs() -> Path | None:
    """The folder of the newest server that is installed."""
    found = sorted(INSTALLED.glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


@contextmanager
def postgres() -> Iterator[str]:
    """The connection string of a server that lives as long as the block."""
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed: on Debian, apt install postgresql")
    # Not in the folder of these tests, which is of one user alone.
    place = Path(tempfile.mkdtemp(prefix="muntin-postgres-", dir="/tmp"))
    try:
        account = _unprivileged(place)
        data = place / "data"
        _run([folder / "initdb", "-D", data, "-U", "muntin", "-A", "trust", "--no-sync"], account)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (place / "log").open("wb") as log:
            server = subprocess.Popen(
                [folder / "postgres", "-D", data, *settings],
                stdout=log,
                stderr=log,
                cwd=place,
                user=account,
                group=account,
            )
        try:
            address = f"host=127.0.0.1 port={port} user=muntin dbname=postgres"
            _wait(address, server, place / "log")
            yield address
        finally:
            server.send_signal(signal.SIGINT)  # disconnects whoever is there
            server.wait(timeout=30)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _unprivileged(place: Path) -> str | None:
    """PostgreSQL refuses to run as root: then it runs as the user that its package has made."""
    if os.geteuid() != 0:
        return None
    try:
        shutil.chown(place, "postgres")
    except LookupError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return "postgres"


def _run(command: list[Path | str], account: str | None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", user=account, group=account)
    assert done.returncode == 0, done.stderr


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    until = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(address, connect_timeout=5).close()
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < until, log.read_text(errors="replace")
            time.sleep(0.1)
        else:
            return
