"""A host of one's own: a temporary directory in which nothing is yet."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from muntin.spark.host import sweep


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(sweep, "_tended", {})
    return tmp_path


@pytest.fixture
def base(host: Path) -> Path:
    """The folder that is ours, before it is made."""
    return host / f"muntin-{os.geteuid()}"


@pytest.fixture
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a link leads to: folders and files as old as can be, with names like ours."""
    folder = tmp_path_factory.mktemp("victim")
    for query in ("a" * 32, "b" * 32, "project"):
        for part in ("0", "load"):
            (folder / query / part).mkdir(parents=True)
            for name in ("holder", f"0-{'c' * 32}", "start-0", "done-0", "heard-0", "thesis"):
                (folder / query / part / name).write_text("[1]\n")
    for each in [*folder.rglob("*"), folder]:
        os.utime(each, (1_000_000, 1_000_000))
    return folder


def contents(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """All that is there, with modes and contents."""
    found = [folder, *folder.rglob("*")]
    return {str(e.relative_to(folder)): (e.stat().st_mode, e.read_bytes() if e.is_file() else None) for e in found}
