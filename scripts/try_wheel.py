"""Install a wheel of Muntin alone in a clean environment, and run the quickstart there: scripts/try_wheel.py WHEEL.

Nothing of the checkout can be imported there, and only what the wheel asks for is installed. Every warning that Python
can give is an error here, but those of files that Spark's own processes leave to be closed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = "Scripts" if os.name == "nt" else "bin"
WARNINGS = "default,ignore::ResourceWarning"
OWN = ("PYTHON", "SPARK_", "PYSPARK_", "VIRTUAL_ENV", "COV_")
"""What would lead from this process's environment to the checkout."""
WITHOUT_EXTRA = "muntin: this command needs rich and matplotlib: pip install 'muntin[cli]'\n"
A_LINE = "|LGA   |297    |107.82511210762"
"""Of what the quickstart prints."""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As from a shell of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    environment |= {"PYTHONWARNINGS": WARNINGS, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(
        [str(part) for part in command],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def expect(fulfilled: bool, what: str, done: subprocess.CompletedProcess[str]) -> None:
    if not fulfilled:
        sys.exit(f"try_wheel: {what}\n{done.stdout[-5000:]}{done.stderr[-5000:]}")


def try_wheel(wheel: Path, python: str, spark: str, place: Path) -> None:
    made = run(python, "-m", "venv", "environment", cwd=place)
    expect(made.returncode == 0, f"{python} makes no environment", made)
    programs = place / "environment" / BIN
    installed = run(programs / "python", "-m", "pip", "install", "--quiet", wheel, spark, cwd=place)
    expect(installed.returncode == 0, f"the wheel and {spark} do not install", installed)
    checked = run(programs / "python", "-m", "pip", "check", cwd=place)
    expect(checked.returncode == 0, "what is installed does not fit together", checked)
    found = run(programs / "python", "-c", "import muntin; print(muntin.__file__)", cwd=place)
    alone = found.returncode == 0 and Path(found.stdout.strip()).is_relative_to(place / "environment")
    expect(alone and not found.stderr, "muntin is not imported from the wheel, or with a warning", found)

    for command in ([programs / "muntin"], [programs / "python", "-m", "muntin"]):
        helped = run(*command, "--help", cwd=place)
        expect(helped.returncode == 0 and "demo" in helped.stdout and not helped.stderr, "no help", helped)
        refused = run(*command, "demo", cwd=place)
        # What the commands draw with is an extra: without it, one sentence says what to install.
        expect((refused.returncode, refused.stderr) == (1, WITHOUT_EXTRA), "the demo without its extra", refused)

    quickstart = shutil.copy(ROOT / "examples" / "quickstart.py", place)
    done = run(programs / "python", quickstart, cwd=place)
    expect(done.returncode == 0 and A_LINE in done.stdout, "the quickstart", done)
    expect(not re.search(r"\b[A-Z][A-Za-z]*Warning\b", done.stderr), "the quickstart warns", done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter (this one)")
    parser.add_argument("--spark", default="pyspark", help="the Spark to install, as 'pyspark==4.1.*' (the newest)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muntin-wheel-") as place:
        try_wheel(options.wheel.resolve(), options.python, options.spark, Path(place).resolve())
    print(f"{options.wheel.name} with {options.spark}: installs alone, and runs the quickstart")


if __name__ == "__main__":
    main()
