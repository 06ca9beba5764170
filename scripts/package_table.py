"""Writes the table of files in docs/design.md from the first sentence of each module's docstring."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "design.md"
BEGIN, END = "<!-- files -->\n", "<!-- /files -->"
LEFT_OUT = ("bench", "demo", "data")
"""Commands have files of their own, which nothing else imports."""


def table() -> str:
    """One table per package, from the commands down."""
    source = ROOT / "src" / "muntin"
    folders = sorted({path.parent for path in source.rglob("*.py")}, key=lambda folder: folder.as_posix())
    parts = []
    for folder in folders:
        name = folder.relative_to(source).as_posix()
        if name.split("/")[0] in LEFT_OUT:
            continue
        rows = [f"| `{path.name}` | {sentence(path)} |" for path in sorted(folder.glob("*.py")) if sentence(path)]
        rows = [row for row in rows if "`__init__.py`" not in row]
        if rows:
            title = "muntin" if name == "." else name
            parts.append(f"**`{title}/`**\n\n| file | what it is |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    return "\n" + "\n".join(parts) + "\n"


def sentence(path: Path) -> str:
    """The first sentence of a module."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    first = re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]
    return first.replace("|", "\\|")


def page() -> str:
    """The page with the table of today."""
    before, rest = PAGE.read_text().split(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    written = page()
    if "--check" in sys.argv:
        sys.exit(0 if written == PAGE.read_text() else f"{PAGE.name} is not up to date; run python {sys.argv[0]}.")
    PAGE.write_text(written)
