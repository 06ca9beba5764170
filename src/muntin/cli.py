"""The command line: `muntin demo`, `muntin bench`, `muntin checkpoint` and `muntin dashboard`."""

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
"""Packages that the commands need and the library does not."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.command == "demo":
            return _demo(options.out)
        if options.command == "bench":
            return _bench(options.name, options.out, options.quick, options.scan, options.device, options.library)
        if options.command == "checkpoint":
            return _inspect(options.path)
        if options.command == "dashboard":
            return _dashboard(options)
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
    demo = commands.add_parser("demo", help="a year of flights as a stream, beside plain Spark; about a minute")
    demo.add_argument("--out", type=Path, default=Path("demo-results"), help="folder for the plot (demo-results)")
    bench = commands.add_parser(
        "bench",
        help="run a benchmark",
        description="Run a benchmark.",
        epilog=_listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    bench.add_argument("name", nargs="?", metavar="NAME", help="the benchmark; without it, all are listed")
    bench.add_argument("--quick", action="store_true", help="a smaller run that only shows that it works")
    bench.add_argument("--scan", action="store_true", help="for slide: a stream of files, read by muntin.scan")
    bench.add_argument(
        "--device", metavar="DEVICE", help="for kernel: the kernels on this device, such as cuda or cpu, beside NumPy"
    )
    bench.add_argument("--library", default="torch", help="for --device: torch (the default) or cupy")
    bench.add_argument("--out", type=Path, default=Path("bench-results"), help="folder for the results (bench-results)")
    checkpoint = commands.add_parser("checkpoint", help="look into the checkpoint of a stream")
    actions = checkpoint.add_subparsers(dest="action", metavar="ACTION", required=True)
    inspect = actions.add_parser("inspect", help="print what a checkpoint is of and how large it is")
    inspect.add_argument("path", help="the checkpointLocation of a stream")
    page = commands.add_parser("dashboard", help="a live page of a stream in another process, from its checkpoint")
    page.add_argument("--checkpoint", required=True, metavar="PATH", help="the checkpointLocation of a stream")
    page.add_argument("--results", metavar="PATH", help="what the stream has written, for the windows as they close")
    page.add_argument("--format", default="parquet", help="the format of the results (parquet)")
    page.add_argument("--value", metavar="COLUMN", help="the column of the results to draw")
    page.add_argument("--operator", type=int, default=0, help="which query, in a chain; the last one is 0 (0)")
    page.add_argument("--port", type=int, default=0, help="the port, on 127.0.0.1; by default any that is free")
    return parser


def _dashboard(options: argparse.Namespace) -> int:
    _check_able_to_run(())
    from muntin.dashboard_command import serve

    return serve(options.checkpoint, options.results, options.format, options.value, options.operator, options.port)


def _inspect(path: str) -> int:
    _check_able_to_run(("rich",))
    from muntin.checkpoint_command import inspect

    return inspect(path)


def _demo(out: Path) -> int:
    _check_able_to_run()
    from muntin.demo import run  # rich, matplotlib and Spark are slow to import

    return run(out)


def _bench(name: str | None, out: Path, quick: bool, scan: bool, device: str | None, library: str) -> int:
    summaries = benchmarks()
    if name is None:
        print(_listing())
        return 0
    if name not in summaries:
        hint = suggest(name, summaries) if summaries else "This installation has none."
        raise MuntinError(f"there is no benchmark {name!r}. {hint}")
    if scan and f"{name}_scan" not in summaries:
        raise MuntinError(f"--scan is for slide, and {name!r} reads no files; leave it out.")
    if device is not None and f"{name}_device" not in {path.stem for path in _modules()}:
        raise MuntinError(f"--device is for kernel, and {name!r} runs where its query says; leave it out.")
    if device is not None:
        return _bench_device(name, out, quick, device, library)
    name = f"{name}_scan" if scan else name
    _check_able_to_run()
    out.mkdir(parents=True, exist_ok=True)
    return int(importlib.import_module(f"muntin.bench.{name}").run(out, quick))


def _bench_device(name: str, out: Path, quick: bool, device: str, library: str) -> int:
    from muntin.devices.device import Device

    found = Device.of(device, library)
    if found.problem is not None:
        raise MuntinError(found.problem)
    _check_packages()
    out.mkdir(parents=True, exist_ok=True)
    return int(importlib.import_module(f"muntin.bench.{name}_device").run_on(found, out, quick))


def _modules() -> list[Path]:
    return sorted((Path(__file__).parent / "bench").glob("[!_]*.py"))


def benchmarks() -> dict[str, str]:
    """The benchmarks in `muntin.bench`, by module name: the first line of each docstring.

    The modules are parsed, not imported: importing Spark takes seconds.
    """
    summaries = {}
    for path in _modules():
        module = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(statement, ast.FunctionDef) and statement.name == "run" for statement in module.body):
            summaries[path.stem] = (ast.get_docstring(module) or "").partition("\n")[0]
    return summaries


def _listing() -> str:
    summaries = benchmarks()
    if not summaries:
        return "There are no benchmarks in this installation."
    width = max(map(len, summaries))
    return "\n".join(["benchmarks:", *(f"  {name:<{width}}  {line}" for name, line in summaries.items())])


def _check_packages(needed: Sequence[str] = DRAWING) -> None:
    missing = [module for module in needed if find_spec(module) is None]
    if missing:
        raise MuntinError(f"this command needs {' and '.join(missing)}: pip install 'muntin[cli]'")


def _check_able_to_run(needed: Sequence[str] = DRAWING) -> None:
    _check_packages(needed)
    java_home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java", path=str(Path(java_home) / "bin")) if java_home else shutil.which("java")):
        problem = f"JAVA_HOME is {java_home}, which has none" if java_home else "there is none on the PATH"
        raise MuntinError(f"Spark needs Java 17 or later, and {problem}; install it, or set JAVA_HOME.")


if __name__ == "__main__":
    sys.exit(main())
