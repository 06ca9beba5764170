"""The notebooks as pages of the documentation, with their outputs; for scripts/build_docs.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
LINK = re.compile(r"\]\(\.\./\.\./docs/([^)]+)\)")
"""A link to a page of docs/."""


def pages() -> dict[str, str]:
    """The text of each page, by its name."""
    return {place(path): page(json.loads(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*.ipynb"))}


def place(path: Path) -> str:
    return f"notebook-{path.stem}.md"


def page(notebook: Any) -> str:
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(LINK.sub(r"](\1)", text))
        else:
            parts += [f"```python\n{text}\n```", *map(output, cell["outputs"])]
    return "\n\n".join(parts) + "\n"


def output(found: Any) -> str:
    """The richest form of an output that a page can have."""
    if found["output_type"] == "stream":
        return fenced("".join(found["text"]))
    data = {kind: "".join(content) for kind, content in found["data"].items()}
    if "image/png" in data:
        return (
            f'<img alt="The plot of the code above" src="data:image/png;base64,{"".join(data["image/png"].split())}">'
        )
    if "text/html" in data:
        return "<div>" + re.sub(r"\s*\n\s*", " ", data["text/html"]) + "</div>"
    return fenced(data["text/plain"])


def fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"
