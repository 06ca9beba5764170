"""Build the documentation as a site in build/site, strictly: make docs.

The pages of docs/ are readable where they are. The site also has README.md as its start page, CONTRIBUTING.md,
CHANGELOG.md, the examples, the notebooks, and the reference from the docstrings of the public names. Links between them
are changed to links between pages. A link that leads nowhere, or a page that loads something from another host, is an
error.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from scripts import notebook_pages  # noqa: E402
from scripts.public_names import MODULES, USED, members  # noqa: E402

STAGE = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
MADE_BY_USERS = ("Stream",)
"""Functions make the values of all other classes."""
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b(?=[^>]*rel=["']?(?:stylesheet|preconnect|icon))[^>]*href=["']?(?:https?:)?//"""
)


def place(path: Path, anchor: str) -> str:
    """Where the site has a file of the project."""
    name = path.relative_to(ROOT).as_posix()
    if name in PAGES:
        return PAGES[name] + anchor
    if path.parent == ROOT / "examples" and path.suffix == ".py":
        return f"examples.md#{path.stem}"
    if path.parent == notebook_pages.FOLDER and path.exists():
        return notebook_pages.place(path)
    if path.is_relative_to(ROOT / "docs") and path.exists():
        return path.relative_to(ROOT / "docs").as_posix() + anchor
    raise SystemExit(f"build_docs: a page links to {name}, which the site does not have")


def linked(text: str, page: Path) -> str:
    def change(match: re.Match[str]) -> str:
        return place(Path(os.path.normpath(page.parent / match[1])), match[2] or "")

    # What is between fences is code.
    parts = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if number % 2 else LINK.sub(change, part) for number, part in enumerate(parts))


def examples() -> str:
    parts = [
        "# Examples\n\nEach runs as a script: `python examples/NAME.py`. The tests run all of them, those that need "
        "Kafka or Iceberg where these can be had.\n"
    ]
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        about = (ast.get_docstring(ast.parse(code)) or "").partition("\n")[0]
        parts.append(f"## {path.stem}\n\n{about}\n\n```python\n{code}```\n")
    return "\n".join(parts)


def reference() -> str:
    parts = ["# API\n\nThe public names. Everything else may change with any version.\n"]
    code = (ROOT / "scripts" / "rides.py").read_text(encoding="utf-8").partition("\n\n")[2]
    parts.append(
        f"The tests run all examples on this page. They use these rides and functions:\n\n```python\n{code}```\n"
    )
    parts.append("Some need Spark, and use `table`, a DataFrame of the rides, or `streamed`, a stream of them.\n")
    for module in MODULES:
        parts.append(f"## {module.__name__}\n")
        for name in sorted(module.__all__):
            found = getattr(module, name)
            if inspect.ismodule(found) or name == "__version__":
                continue
            parts.append(directives(name, found))
    return "\n".join(parts)


def directives(name: str, found: Any) -> str:
    """One per name, so that a class shows only what users call."""
    full = f"{found.__module__}.{name}"
    if not inspect.isclass(found):
        return f"::: {full}\n"
    methods = [line.removeprefix(name).partition("(")[0] for line in members(name, found)] if name in USED else []
    signature = str(name in MADE_BY_USERS).lower()
    parts = [f"::: {full}\n    options:\n      members: []\n      show_signature: {signature}\n"]
    return "\n".join([*parts, *(f"::: {full}{method}\n    options:\n      heading_level: 4\n" for method in methods)])


def configuration() -> dict[str, Any]:
    """With a place in the navigation for pages that nobody has listed."""
    read: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = set(re.findall(r"[\w-]+\.md", str(read["nav"])))
    more = sorted(path.name for path in STAGE.glob("*.md") if path.name not in listed)
    if more:
        print(f"build_docs: not in mkdocs.yml, and so under More: {', '.join(more)}")
        read["nav"].append({"More": more})
    return {**read, "docs_dir": "docs", "site_dir": "site"}


def stage() -> None:
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE)
    for page in [*(ROOT / "docs").glob("*.md"), *map(ROOT.joinpath, PAGES)]:
        text = linked(page.read_text(encoding="utf-8"), page)
        (STAGE / PAGES.get(page.name, page.name)).write_text(text, encoding="utf-8")
    for name, text in notebook_pages.pages().items():
        (STAGE / name).write_text(text, encoding="utf-8")
    (STAGE / "examples.md").write_text(examples(), encoding="utf-8")
    (STAGE / "api.md").write_text(reference(), encoding="utf-8")
    (STAGE.parent / "mkdocs.yml").write_text(yaml.safe_dump(configuration(), sort_keys=False), encoding="utf-8")


def foreign(pages: Iterable[Path]) -> list[str]:
    """What pages load from other hosts."""
    return [
        f"{page.relative_to(SITE)}: {match[0]}"
        for page in pages
        for match in LOADED.finditer(page.read_text(encoding="utf-8"))
    ]


def main() -> None:
    stage()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(STAGE.parent / "mkdocs.yml")]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}
    if subprocess.run(command, cwd=STAGE.parent, env=environment).returncode:
        sys.exit("build_docs: the site has mistakes; see above")
    if loaded := foreign(SITE.rglob("*.html")):
        sys.exit("\n".join(["build_docs: pages load from other hosts:", *loaded]))
    print(f"build_docs: {len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}/, begin with index.html")


if __name__ == "__main__":
    main()
