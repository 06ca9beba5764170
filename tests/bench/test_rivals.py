"""The README's table of rates beside other systems is what the recorded results say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_has_the_rates_of_the_results() -> None:
    script = ROOT / "scripts" / "rivals_table.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_row_has_figures_of_muntin_and_of_another_system() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8").split("<!-- rivals -->")[1].split("<!-- /rivals -->")[0]
    heading, _, *rows = page.strip().splitlines()
    assert [cell.strip() for cell in heading.split("|")[2:5]] == ["`muntin.scan`", "Muntin, DataFrame", "Spark"]
    assert len(rows) == 6 + 2 + 2 + 1
    for row in rows:
        cells = [cell.strip() for cell in row.split("|")[2:-1]]
        assert any(cells[:2]), row
        assert sum("**" in cell for cell in cells) == 1, row
