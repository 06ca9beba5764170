"""Every example runs, and the README shows the first of them as it is."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

EXPECTED = {
    "custom_aggregate": "|north|43.63636363636363| 80.0|",
    "quickstart": "|{2013-03-08 ",
    "springald_panes": "[  4, 16)  19 + 15 + 18 = 52",
}
"""A line of what each prints, or the beginning of one."""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # As a script: Spark sends the functions of __main__ to its workers, which cannot import an example.
    runpy.run_path(str(example), run_name="__main__")
    assert EXPECTED[example.stem] in capsys.readouterr().out


def test_readme_shows_the_quickstart() -> None:
    code = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in (ROOT / "README.md").read_text(encoding="utf-8")
