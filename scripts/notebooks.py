"""Run the notebooks of examples/notebooks and compare what they show with what is stored: make notebooks.

    python scripts/notebooks.py [NAME...] [--write]

All run in one kernel, whose names are cleared between them, so that Spark starts once. With --write, the outputs are
stored. Pictures are not compared, and neither are cells with the tag "varies": they depend on versions of other
packages.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "notebooks"
LOG = ROOT / "build" / "notebooks.log"
SPARK = "muntin.session()"
"""What notebooks say that run on Spark; the others run without it."""
SET_UP = """
import muntin
muntin.session("muntin-notebooks").sparkContext.setLogLevel("OFF")
"""


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def needs_spark(notebook: Any) -> bool:
    return any(SPARK in cell.source for cell in notebook.cells)


@contextmanager
def kernel() -> Iterator[KernelManager]:
    """A kernel of this Python. What Spark and its workers write to its descriptors goes to a file."""
    LOG.parent.mkdir(exist_ok=True)
    manager = KernelManager(kernel_name="python3")
    environment = {**os.environ, "TZ": "UTC", "PYTHONPATH": str(ROOT / "src")}
    with LOG.open("wb") as log:
        manager.start_kernel(
            extra_arguments=["--IPKernelApp.capture_fd_output=False"], env=environment, stdout=log, stderr=log
        )
        try:
            yield manager
        finally:
            manager.shutdown_kernel(now=False)


def executed(manager: KernelManager, notebook: Any) -> Any:
    """The notebook with the outputs of now."""
    client = NotebookClient(notebook, km=manager, timeout=600, record_timing=False)
    with client.setup_kernel(cleanup_kc=False):
        client.execute(reset_kc=False)
    client.kc.stop_channels()
    number = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            number += 1
            cell.execution_count = number
            for output in cell.outputs:
                if "execution_count" in output:
                    output["execution_count"] = number
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def alone(code: str) -> Any:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])


def shown(cell: Any) -> list[tuple[str, str]]:
    """What a cell shows, as kinds and texts; of pictures only that they are there."""
    found = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            found.append((output.name, output.text))
        elif output.output_type == "error":
            found.append(("error", output.ename))
        else:
            for kind, content in sorted(output.data.items()):
                found.append((kind, "" if kind.startswith("image/") else content))
    return found


def differences(name: str, stored: Any, now: Any) -> list[str]:
    lines = []
    for old, new in zip(stored.cells, now.cells, strict=True):
        if "varies" not in new.metadata.get("tags", []) and shown(old) != shown(new):
            lines += [f"{name}: {new.source.splitlines()[-1]}", f"  stored: {shown(old)}", f"  now:    {shown(new)}"]
    return lines


def run(chosen: list[str], write: bool) -> list[str]:
    """What has failed, or differs from what is stored."""
    problems: list[str] = []
    with kernel() as manager:
        if any(needs_spark(read(name)) for name in chosen):
            executed(manager, alone(SET_UP))
        for name in chosen:
            began = time.monotonic()
            executed(manager, alone("%reset -f"))
            try:
                now = executed(manager, read(name))
            except CellExecutionError as error:
                problems.append(f"{name}: {error}")
                continue
            if write:
                nbformat.write(now, FOLDER / f"{name}.ipynb")
            else:
                problems += differences(name, read(name), now)
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the notebooks and compare their outputs with the stored ones.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; by default all")
    parser.add_argument("--write", action="store_true", help="store the outputs instead")
    options = parser.parse_args()
    unknown = set(options.names) - set(names())
    if unknown:
        parser.error(f"there is no notebook {sorted(unknown)[0]!r}; there are {', '.join(names())}")
    problems = run(options.names or names(), options.write)
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
