"""The command line: `muntin demo` and `muntin bench`."""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from muntin import __version__
from muntin.errors import MuntinError, suggest

DRAWING = ("rich", "matplotlib")
"""What the commands need beyond the library itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        if given.command == "demo":
            return _demo(given.out)
        if given.command == "bench":
            return _bench(given.name, given.out, given.quick)
    except MuntinError as error:
        print(f"muntin: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("muntin: stopped.", file=sys.stderr)
        return 130
    parser.print_help()
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="muntin", description="Windowed aggregation over streams and tables, on Spark."
    )
    parser.add_argument("--version", action="version", version=f"muntin {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser("demo", help="a year of flights as a stream, beside plain Spark; about two minutes")
    demo.add_argument("--out", type=Path, default=Path("demo-results"), help="where the plot goes (demo-results)")
    bench = commands.add_parser(
        "bench",
        help="run a benchmark",
        description="Run a benchmark.",
        epilog=_listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    bench.add_argument("name", nargs="?", metavar="NAME", help="which one; left out, they are listed")
    bench.add_argument("--quick", action="store_true", help="a smaller run, to see that it works")
    bench.add_argument("--out", type=Path, default=Path("bench-results"), help="where results go (bench-results)")
    return parser


def _demo(out: Path) -> int:
    _check_able_to_run()
    from muntin.demo import run  # rich, matplotlib and Spark are imported when they are needed, and no earlier

    return run(out)


def _bench(name: str | None, out: Path, quick: bool) -> int:
    known = benchmarks()
    if name is None:
        print(_listing())
        return 0
    if name not in known:
        hint = suggest(name, known) if known else "This installation has none."
        raise MuntinError(f"there is no benchmark {name!r}. {hint}")
    _check_able_to_run()
    out.mkdir(parents=True, exist_ok=True)
    return int(importlib.import_module(f"muntin.bench.{name}").run(out, quick))


def benchmarks() -> dict[str, str]:
    """The modules of `muntin.bench` that can be run, each with the first line of its docstring.

    They are read, not imported: a list should not take the seconds that importing Spark takes.
    """
    found = {}
    for path in sorted((Path(__file__).parent / "bench").glob("[!_]*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(part, ast.FunctionDef) and part.name == "run" for part in module.body):
            found[path.stem] = (ast.get_docstring(module) or "").partition("\n")[0]
    return found


def _listing() -> str:
    known = benchmarks()
    if not known:
        return "There are no benchmarks in this installation."
    width = max(map(len, known))
    return "\n".join(["benchmarks:", *(f"  {name:<{width}}  {line}" for name, line in known.items())])


def _check_able_to_run() -> None:
    missing = [module for module in DRAWING if find_spec(module) is None]
    if missing:
        raise MuntinError(f"this command needs {' and '.join(missing)}: pip install 'muntin[cli]'")
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")):
        where = f"JAVA_HOME is {home}, where there is none" if home else "there is none on the PATH"
        raise MuntinError(f"Spark needs Java 17 or later, and {where}; install it, or set JAVA_HOME.")


if __name__ == "__main__":
    sys.exit(main())
