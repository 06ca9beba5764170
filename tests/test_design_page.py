"""The pages about the code are true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_table_of_files_is_that_of_the_modules() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "package_table.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_files_that_the_page_names_exist() -> None:
    page = (ROOT / "docs" / "design.md").read_text().split("<!-- files -->")[0]
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+(?:\.py)?)`", page))
    roots = (ROOT, ROOT / "src" / "muntin")
    missing = sorted(name for name in named if not any((root / name).exists() for root in roots))
    assert missing == []


def test_functions_that_the_walk_names_exist() -> None:
    """Every hop of a row names the functions that do it."""
    page = (ROOT / "docs" / "design.md").read_text()
    walk = page.split("## A row, from source to result")[1].split("## The layers")[0]
    cells = [line.rsplit("|", 2)[1] for line in walk.splitlines() if re.match(r"\| \d+\.", line)]
    assert len(cells) == 14
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "muntin").rglob("*.py"))
    for name in re.findall(r"`([\w.]+)`", "".join(cells)):
        last = name.rsplit(".", 1)[-1]
        assert re.search(rf"(def|class) {last}\b", source), name
