"""The notebooks: each option has one, they are stored with their outputs, and they still show the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
WITHOUT_SPARK = ("compress", "late_rows", "updates")
LARGEST = 100_000


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def outputs(name: str) -> list[Any]:
    return [output for cell in read(name)["cells"] for output in cell.get("outputs", [])]


def run(*names: str) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/notebooks.py", *names], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr


def test_options_of_queries_have_a_notebook() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    options = set(re.findall(r"^\|.*?\[`\.(\w+)\(", page, re.MULTILINE))
    with_one = {"late": "late_rows", "emit": "updates"}
    without = {"device", "drain", "use"}  # of machines with a GPU, of runs that end, and of those who extend Muntin
    assert {with_one.get(option, option) for option in options - without} == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_they_are_stored_as_they_ran(name: str) -> None:
    """With outputs in order, without errors, and without a word of the machine that ran them."""
    code = [cell for cell in read(name)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert len(outputs(name)) >= 3
    assert {output["output_type"] for output in outputs(name)} <= {"stream", "display_data", "execute_result"}
    assert all(output.get("name") != "stderr" for output in outputs(name))
    stored = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert len(stored) < LARGEST
    without_pictures = re.sub(r'"image/png": "[^"]*"', "", stored)
    assert not re.search(
        r"/(?:tmp|home|root|usr|work|opt)/|[A-Z]:\\\\|site-packages|https?://(?!www\.w3\.org)", without_pictures
    )


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_their_links_lead_somewhere(name: str) -> None:
    texts = "".join("".join(cell["source"]) for cell in read(name)["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#]+)", texts)
    assert links
    assert all((FOLDER / link).exists() for link in links)


@pytest.mark.slow
def test_those_without_spark_show_the_same() -> None:
    run(*WITHOUT_SPARK)


@pytest.mark.spark
@pytest.mark.extended
def test_those_with_spark_show_the_same() -> None:
    run(*(name for name in NOTEBOOKS if name not in WITHOUT_SPARK))
